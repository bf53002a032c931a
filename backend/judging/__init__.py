"""Judging: what annotators are shown, and by which guidelines they work."""
