"""File formats, imports, exports, downloads, and the generated encyclopedia."""
