"""Open existing Lucene and FAISS indexes outside a study, without converting them."""
