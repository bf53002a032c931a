"""Experiments that test findings of papers on a study, by training several models and comparing them."""
