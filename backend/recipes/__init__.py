"""Recipes of several steps: RocketQA."""
