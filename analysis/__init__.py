"""Measures and statistics. Its functions take arrays and return arrays or small tables. They read no files and import
none of `app`, `backend` and `db`.
"""
