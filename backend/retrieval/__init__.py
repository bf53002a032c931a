"""Retrieval: BM25, dense and hybrid retrievers, their indexes, and exact search."""
