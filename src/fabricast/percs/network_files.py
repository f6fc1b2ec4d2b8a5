"""The network a user means: PERCS of a size, or a YAML file."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from fabricast.errors import InputError
from fabricast.percs.cases import WORKLOADS, supernodes_of
from fabricast.percs.network import TwoLevelNetwork, percs
from fabricast.yaml_files import load_model

__all__ = ["load_network"]


class _NetworkFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    groups: int
    drawers_per_group: int = 1
    routers_per_drawer: int
    cores_per_router: int
    multiplicity: int = 1
    gateway: str = "mod"
    ll_bytes_per_s: float = Field(gt=0)
    lr_bytes_per_s: float | None = Field(None, gt=0)
    d_bytes_per_s: float = Field(gt=0)
    injection_bytes_per_s: float = Field(gt=0)
    hop_latency_s: float = Field(50e-9, gt=0)


def load_network(
    pattern: str, *, groups: int | None, gateway: str, multiplicity: int, file: Path | None
) -> TwoLevelNetwork:
    """Return the network of a command.

    Parameters
    ----------
    pattern : str
        Built-in pattern, whose name tells the supernodes, or a file.
    groups : int or None
        Groups of PERCS.
    gateway, multiplicity
        As of `fabricast.percs.network.TwoLevelNetwork`.
    file : Path or None
        YAML file with keys of the network; a network with one speed in a group leaves out
        lr_bytes_per_s. It excludes the others.

    Returns
    -------
    TwoLevelNetwork
        The network.

    Raises
    ------
    InputError
        If nothing tells the number of groups, or a value is out of range.
    """
    if file is not None:
        if groups is not None:
            raise InputError("--groups and --network exclude each other")
        values = load_model(file, _NetworkFile).model_dump()
        values["lr_bytes_per_s"] = values["lr_bytes_per_s"] or values["ll_bytes_per_s"]
        try:
            return TwoLevelNetwork(**values)
        except InputError as error:
            raise InputError(str(error), path=file) from error
    if groups is None:
        if pattern not in WORKLOADS:
            raise InputError("--groups is missing, expected the number of supernodes, or --network FILE")
        groups = supernodes_of(pattern)
    return percs(groups, gateway=gateway, multiplicity=multiplicity)  # type: ignore[arg-type]  # checked there
