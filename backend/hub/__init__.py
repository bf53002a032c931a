"""Push training sets, encoders, judges and whole studies to the Hugging Face Hub, and pull them from it.

A repository that Blindspot pushed has a file `blindspot.json` at its root, which describes the contents. Pulled files
are untrusted: only known kinds of files that cannot run code are downloaded, and a model whose loading would run code
is refused.
"""
