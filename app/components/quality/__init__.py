"""The parts of the Quality page."""
