"""Configuration models with validation; schema and documentation are generated from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from fabricast.config.breakdown import BreakdownConfig
from fabricast.config.clusters import ClustersConfig
from fabricast.config.collectives import CollectivesConfig
from fabricast.config.gpucentric import GpuCentricConfig
from fabricast.config.maxrate import MaxRateConfig
from fabricast.config.pcie import PcieConfig
from fabricast.config.percs import PercsConfig
from fabricast.config.section import Section
from fabricast.core.errors import InputError
from fabricast.inputs.yaml_files import validate

__all__ = ["Config", "checked_config"]


FigureFormat = Literal["svg", "pdf", "png"]


class Config(Section):
    """Configuration of a run."""

    seed: int = Field(20161113, ge=0, le=2**63 - 1, description="Root seed of all random numbers.")
    bootstrap_resamples: int = Field(
        2000, ge=100, le=100_000, description="Bootstrap resamples for each 95 % interval of the error bands."
    )
    figure_formats: list[FigureFormat] = Field(
        default=["svg"],
        description="Formats of each figure: `svg`, which the report embeds, and if needed `pdf` and `png`.",
    )
    pcie: PcieConfig = Field(description="The PCIe study.")
    breakdown: BreakdownConfig = Field(description="The breakdown study.")
    maxrate: MaxRateConfig = Field(description="The max-rate study.")
    gpucentric: GpuCentricConfig = Field(default_factory=GpuCentricConfig, description="The GPU-centric study.")
    percs: PercsConfig = Field(default_factory=PercsConfig, description="The study of two-level direct networks.")
    collectives: CollectivesConfig = Field(
        default_factory=CollectivesConfig, description="The study of NCCL's collective operations."
    )
    clusters: ClustersConfig = Field(
        default_factory=ClustersConfig, description="The study of copies from GPU to network."
    )
    pathvars: dict[Literal["results", "reports", "logs"], str] = Field(
        default_factory=dict,
        description="Folders of results, reports and logs, so that studies do not overwrite each other.",
    )

    @property
    def has_other_measurements(self) -> bool:
        """True if the user measures, or supplies files, for studies other than the graph sets of the PCIe study."""
        files = self.maxrate.measurements or self.collectives.machines or self.clusters.machines
        files = files or [name for name in self.breakdown.systems if name.endswith((".yaml", ".yml"))]
        sections = self.pcie, self.breakdown, self.maxrate, self.gpucentric, self.collectives
        return bool(files) or any(section.measured for section in sections)

    @field_validator("figure_formats")
    @classmethod
    def _formats_with_svg(cls, formats: list[FigureFormat]) -> list[FigureFormat]:
        if "svg" not in formats:
            raise ValueError("expected svg among them, which the report embeds")
        return [name for name in get_args(FigureFormat) if name in formats]


def checked_config(values: Mapping[str, Any]) -> Config:
    """Validate a merged Snakemake configuration.

    >>> checked_config({"seeed": 1})
    Traceback (most recent call last):
    fabricast.core.errors.InputError: config: keys 'pcie', 'breakdown', 'maxrate' are missing
    """
    try:
        return validate(Config, json.loads(json.dumps(values)))
    except InputError as error:
        raise InputError(f"config: {error}") from error
