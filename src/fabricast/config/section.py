"""What all sections of the configuration share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """Keys of one section: unknown ones are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
