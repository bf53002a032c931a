"""Check a file of training data: report the problems that are visible without labels, estimate the share of false
negatives, and choose a rule that drops them.
"""
