"""Version 1 of the HTTP interface that reads and writes a study. See `docs/http.md`."""
