"""The Quality page, part by part."""
