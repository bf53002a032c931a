"""Judging: batches of candidates, what annotators are shown and by which guidelines, labels in and out, and how good they are."""
