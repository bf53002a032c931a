"""Name, describe, delete and hand out the parts of a study: runs, batches, training sets, models and maps."""
