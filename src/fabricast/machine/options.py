"""Options of a user about a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MachineOptions:
    """Statements of a user about a machine, above the facts of files; None if unspecified."""

    #: GPU model and processor.
    gpu: str | None = None
    cpu: str | None = None
    link: str | None = None  # Link of each GPU, such as ``gen4x16``
    #: Whether graphics cards are GPUs, and whether network cards are endpoints.
    include_display: bool = False
    network_cards: bool = False
    program: str = "independent"  # Copy program of measured rows that name none
    system: str | None = None  # Machine of a table with several machines
    #: Parameters of the models.
    bandwidth_bytes_per_s: float | None = None
    tau: float | None = None
    crossing_cost: float | None = None
    parameters: Path | str | None = None  # File of calibrated parameters
    #: Whether copies between directly linked GPUs use PCIe, so that missing direct links do not matter.
    pcie_only: bool = False
