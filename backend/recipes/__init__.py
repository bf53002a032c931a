"""Recipes of several steps: RocketQA, the demo study."""
