"""Write the report of a study as one HTML file, which can be read without Python."""
