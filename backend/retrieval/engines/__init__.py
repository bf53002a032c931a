"""Indexes and search engines that exist outside a study, opened as they are: one file an engine."""
