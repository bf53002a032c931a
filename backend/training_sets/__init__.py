"""Training sets: mining, denoising, leaks, building, differences, exports."""
