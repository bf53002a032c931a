"""The commands, one file for each group. `app/cli.py` puts them together."""
