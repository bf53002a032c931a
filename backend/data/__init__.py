"""File formats, imports, exports, downloads, and the demo's data."""
