"""What comes in and goes out: formats, importing, exporting, downloads, the generated encyclopedia."""
