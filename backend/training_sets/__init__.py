"""Training sets: mining and denoising negatives, building, comparing and exporting sets."""
