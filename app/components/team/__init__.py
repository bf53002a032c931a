"""The parts of the Team page."""
