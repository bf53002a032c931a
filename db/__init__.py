"""The SQLite stores of a study, and the record types that all packages share. This package imports none of `app`,
`backend` and `analysis`.
"""
