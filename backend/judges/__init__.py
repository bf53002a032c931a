"""Judges are automatic models that give the probability that a passage answers a question. This package trains,
calibrates, measures and applies them.
"""
