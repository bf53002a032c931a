"""Open existing indexes and search engines outside a study, without converting them. Each engine has its own module."""
