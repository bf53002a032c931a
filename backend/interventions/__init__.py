"""Why a dense run missed a question, by intervention: edit the gold passage or the question, and search again.

`edits` has the edits, `searching` ranks edited passages against a stored index, `misses` draws the misses of a run and
prepares them, `explaining` does a batch as a job, and `table` counts its causes.
"""
