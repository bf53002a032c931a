"""Import files into a study: passages, questions, frequencies, qrels and runs. A failed import changes nothing, and
error messages name the line of each invalid row.
"""
