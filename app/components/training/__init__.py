"""The Training page, part by part."""
