"""Fast exact search. Low-precision products propose candidates (cpu.py with candidate_table.py, gpu.py). products.py
bounds their error, scores.py computes the candidates' true scores, and exhaustive.py searches again without a cut for
questions that the bound leaves open. Callers use `blindspot.backend.retrieval.search`.
"""
