"""Benchmarks: each module prints its own table, ours and a peer's, measured in one run. `python -m benchmarks` runs the CPU set."""
