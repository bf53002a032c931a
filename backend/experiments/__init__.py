"""Experiments: questions about a study that take several trainings to answer."""
