"""The report of a study as one HTML file, for colleagues without Python."""
