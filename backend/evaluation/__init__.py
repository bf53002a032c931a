"""What the runs are worth: accuracy, comparisons, slices, reports, and why a question was missed."""
