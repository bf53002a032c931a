"""The GPU kit: `python -m benchmarks.gpu`. It measures what this project promises on a GPU, on a machine without
network.

A folder of at most 60 MB, made by `python -m benchmarks.gpu pack DIR`, holds everything that the machine needs besides
the repository, PyTorch, transformers and sentence-transformers.
"""
