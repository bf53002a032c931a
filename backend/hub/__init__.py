"""The Hugging Face Hub: push and pull training sets, encoders, judges and whole studies.

A repository that Blindspot pushed has `blindspot.json` at its root, which says what it holds. Everything that is pulled
is a stranger's: only files of known, inert kinds are downloaded, and a model whose loading would run code is refused.
"""
