"""How exact search is fast: candidates by products in few bits (cpu.py, gpu.py), a bound on their error (products.py), true scores of what
is left (scores.py), and the search without a cut for questions that the bound leaves open (exhaustive.py). `backend.retrieval.search` is
the door."""
