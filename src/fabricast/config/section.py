"""Base class of all sections of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Immutable section of the configuration that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)
