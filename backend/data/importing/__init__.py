"""Bringing files into a study: passages, questions, frequencies, qrels, runs. All or nothing, and every bad row by its
line.
"""
