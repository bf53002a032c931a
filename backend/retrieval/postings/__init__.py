"""BM25 over many questions: the postings of Lucene as arrays, and the compiled search of them."""
