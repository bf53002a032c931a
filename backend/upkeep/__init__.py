"""Rename, describe, delete and download the parts of a study: runs, batches, training sets, models and maps."""
