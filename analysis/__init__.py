"""Measures and statistics. Functions take arrays and return arrays or small tables; they read no files and import no
other room.
"""
