"""What the answers share: examples and pages of lists."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


def example(value: Any) -> ConfigDict:
    """Return the configuration of a model with this example."""
    return ConfigDict(json_schema_extra={"example": value})


class PageAnswer(BaseModel):
    """One page of a list."""

    total: Annotated[int, Field(description="Number of items in the whole list.")]
    offset: Annotated[int, Field(description="Place of this page's first item, from 0.")]
