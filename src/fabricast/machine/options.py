"""Options of a user about a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["MachineOptions"]


@dataclass(frozen=True)
class MachineOptions:
    """Statements of a user about a machine, above the facts of files; None if unspecified.

    Parameters
    ----------
    gpu, cpu : str, optional
        GPU model and processor.
    link : str, optional
        Link of each GPU, such as ``gen4x16``.
    include_display, network_cards : bool
        Whether graphics cards are GPUs, and whether network cards are endpoints.
    program : str
        Copy program of measured rows that name none.
    system : str, optional
        Machine of a table with several machines.
    bandwidth_bytes_per_s, tau, crossing_cost : float, optional
        Parameters of the models.
    parameters : Path, optional
        File of calibrated parameters.
    pcie_only : bool
        Whether copies between directly linked GPUs use PCIe, so that missing direct links do not matter.
    """

    gpu: str | None = None
    cpu: str | None = None
    link: str | None = None
    include_display: bool = False
    network_cards: bool = False
    program: str = "independent"
    system: str | None = None
    bandwidth_bytes_per_s: float | None = None
    tau: float | None = None
    crossing_cost: float | None = None
    parameters: Path | str | None = None
    pcie_only: bool = False
