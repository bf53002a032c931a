"""The SQLite stores of a study, and the record types that all packages share. This package imports no other package of
Blindspot except itself.
"""
