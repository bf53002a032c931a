"""The options of `blindspot index open`. This module is separate from `engine` so that the command line loads without
NumPy.
"""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class


@settings_class
class EngineSettings:
    """The settings for opening an index. Each engine uses some of them and refuses the others."""

    encoder: str = Field(default="", description="Encoder that made the vectors; questions are encoded with it")
    ids: str = Field(default="", description="File with the passage id of each vector: text, a line each, or .npy")
