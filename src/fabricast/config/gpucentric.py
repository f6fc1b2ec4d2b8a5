"""Configuration of the GPU-centric study."""

from __future__ import annotations

from pydantic import Field, field_validator

from fabricast.config.section import Section

__all__ = ["GpuCentricConfig", "GpuRunConfig"]


class GpuRunConfig(Section):
    """The measured run on a GPU."""

    sizes: list[int] = Field(
        default_factory=lambda: [4**i for i in range(1, 15)], min_length=2, description="Bytes of copies."
    )
    bursts: int = Field(default=3, ge=1, le=10_000, description="Repetitions of every cell, spread over the run.")
    seconds: float = Field(default=0.02, gt=0, le=10, allow_inf_nan=False, description="Time of each burst.")
    power_seconds: float = Field(
        default=1.0,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="Time over which each power is taken; 0 leaves them out.",
    )
    ordinal: int = Field(default=0, ge=0, le=1024, description="Which of the visible GPUs.")

    @field_validator("sizes")
    @classmethod
    def _sizes_in_range(cls, sizes: list[int]) -> list[int]:
        if min(sizes) < 1 or max(sizes) > 2**32:
            raise ValueError("expected sizes of 1 byte to 4 GiB")
        if len(set(sizes)) < 2:
            raise ValueError("expected two different sizes, for a start-up time and a rate")
        return sorted(set(sizes))


class GpuCentricConfig(Section):
    """The GPU-centric study (Froening, GTC 2016)."""

    draws: int = Field(
        default=2000, ge=100, le=1_000_000, description="Draws of the assumed parameters behind each robustness share."
    )
    measured: bool = Field(
        default=False, description="Measure a GPU of this machine and take it into tables; needs the group 'cuda'."
    )
    gpu_run: GpuRunConfig = Field(default_factory=GpuRunConfig, description="The measured run.")
