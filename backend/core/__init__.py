"""The study and its parts: folder, settings, manifests, runs, jobs."""
