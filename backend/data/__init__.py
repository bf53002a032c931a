"""Data: file formats, import, export, downloads, and the generated encyclopedia."""
