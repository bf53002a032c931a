"""The checks of what needs a GPU: `python -m benchmarks.gpu`."""
