"""Training data and training: what is mined, cleaned and learned from."""
