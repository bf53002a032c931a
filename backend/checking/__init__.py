"""Check a file of training data: the problems that need no label, the number of false negatives, and the rule that
drops them."""
