"""Judging by people: batches of candidate passages, cards for annotators, guidelines, import and export of labels, and
label quality.
"""
