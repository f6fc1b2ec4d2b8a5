"""User-specified networks: PERCS with a number of supernodes, or a YAML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from fabricast.core.errors import InputError
from fabricast.inputs.yaml_files import load_model
from fabricast.percs.cases import WORKLOADS, check_pattern, supernodes_of
from fabricast.percs.network import TwoLevelNetwork, percs

_RATE = Field(ge=1e3, le=1e15, allow_inf_nan=False)


class _NetworkFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    groups: int = Field(ge=1, le=65536)
    drawers_per_group: int = Field(1, ge=1, le=65536)
    routers_per_drawer: int = Field(ge=1, le=65536)
    cores_per_router: int = Field(ge=1, le=65536)
    multiplicity: int = Field(1, ge=1, le=65536)
    gateway: str = "mod"
    ll_bytes_per_s: float = _RATE
    lr_bytes_per_s: float | None = Field(None, ge=1e3, le=1e15, allow_inf_nan=False)
    d_bytes_per_s: float = _RATE
    injection_bytes_per_s: float = _RATE
    hop_latency_s: float = Field(50e-9, gt=0, le=1.0, allow_inf_nan=False)


def load_network(
    pattern: str,
    *,
    groups: int | None,
    gateway: str,
    multiplicity: int,
    file: Path | None,
    ranks_per_node: int | None = None,
) -> TwoLevelNetwork:
    """Return the network specified by command-line or API arguments."""
    if file is not None:
        if groups is not None:
            raise InputError("cannot be combined with a network file", argument="groups")
        values = load_model(file, _NetworkFile).model_dump()
        values["lr_bytes_per_s"] = values["lr_bytes_per_s"] or values["ll_bytes_per_s"]
        try:
            return _with_ranks(TwoLevelNetwork(**values), pattern, ranks_per_node)
        except InputError as error:
            raise InputError(str(error), path=file) from error
    if groups is None:
        check_pattern(pattern)
        if pattern not in WORKLOADS:
            raise InputError("is missing, expected the number of supernodes or a network file", argument="groups")
        groups = supernodes_of(pattern)
    network = percs(groups, gateway=gateway, multiplicity=multiplicity)  # type: ignore[arg-type]  # validated by TwoLevelNetwork
    return _with_ranks(network, pattern, ranks_per_node)


def _with_ranks(network: TwoLevelNetwork, pattern: str, ranks_per_node: int | None) -> TwoLevelNetwork:
    if ranks_per_node is None:
        return network
    if pattern in WORKLOADS:
        raise InputError(
            f"is {ranks_per_node}, but '{pattern}' has {network.cores_per_router} ranks per node; specify another "
            "number only for a matrix",
            argument="ranks_per_node",
        )
    return replace(network, cores_per_router=ranks_per_node)
