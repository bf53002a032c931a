"""The forms of trainers' files. A form is a module of this package that registers a `TrainingFormat`; nothing else needs
to change.

An installed package adds forms through the entry point group `blindspot.training_formats`.
"""
