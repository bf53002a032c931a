"""The Map page, part by part."""
