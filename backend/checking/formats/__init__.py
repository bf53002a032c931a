"""The supported formats of training files. To add a format, add a module to this package that registers a
`TrainingFormat` (`base.py`).

An installed package adds formats through the entry point group `blindspot.training_formats`.
"""
