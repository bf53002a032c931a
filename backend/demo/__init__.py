"""The demo study: a generated encyclopedia, and everything that the app shows of a study, computed there."""
