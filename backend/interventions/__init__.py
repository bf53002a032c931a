"""Explain by intervention why a dense run missed a question: edit the gold passage or the question, and search again.

`edits` defines the edits, `searching` ranks edited passages against a stored index, `misses` selects the misses of a
run, `explaining` applies the edits to misses, `batch` runs this as a job, and `table` formats the counts of causes.
"""
