"""Judging: batches of candidates, cards for annotators, guidelines, import and export of labels, and label quality."""
