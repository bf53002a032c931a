"""Benchmarks. Each module prints a table with our figures and a peer's, measured in one run. `python -m benchmarks`
runs the CPU set.
"""
