"""Check a file of training data: what is wrong at once, how many negatives are false, which rule drops them."""
