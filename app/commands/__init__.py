"""The commands, a file for each group; `app/cli.py` puts them together."""
