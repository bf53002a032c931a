"""The SQLite stores of a study, and the records that all rooms share. This package imports no other room."""
