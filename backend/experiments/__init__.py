"""Experiments: the papers' findings, tested on a study with several trainings."""
