"""Training recipes that consist of several steps: RocketQA."""
