"""Retrievers: anything with a `name` and `search(questions, k) -> Hits`."""
