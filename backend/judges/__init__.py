"""Judges: anything that says how probable it is that a passage answers a question, and what such scores are good
for.
"""
