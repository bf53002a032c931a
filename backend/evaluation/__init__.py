"""Evaluation of runs: accuracy, comparisons, slices, reports, and why a run missed a question."""
