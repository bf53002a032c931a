"""Fast exact search. Low-precision dot products select candidates (cpu.py with candidate_table.py, gpu.py). products.py
bounds the rounding error of these products, and scores.py computes the candidates' exact scores. If the bound does not
prove that a question's top k are among its candidates, exhaustive.py searches all rows for that question. Callers use
`blindspot.backend.retrieval.search`.
"""
