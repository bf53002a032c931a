"""BM25 for many questions at once: Lucene's postings as arrays, and a compiled search over them."""
