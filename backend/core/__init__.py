"""The study folder and what it contains: settings, manifests, runs and jobs."""
