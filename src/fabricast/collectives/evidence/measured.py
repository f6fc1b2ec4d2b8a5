"""Measured collective operations of public machines, for the fit of constants and the errors of forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.communicator import Communicator, communicator
from fabricast.collectives.constants import Constants
from fabricast.collectives.expected import size_class
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.plan import nccl_plan
from fabricast.core.facts import Content, Facts
from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.gpus import gpu_model
from fabricast.machine.build import load_facts, machine_of_tree
from fabricast.machine.options import MachineOptions
from fabricast.nccl.costs import Operation
from fabricast.nccl.settings import NcclSettings, with_environment
from fabricast.nccl.system import NEWEST, Cpu, parse_version
from fabricast.pcie.topology.builtin import load_tree

#: Smaller sizes are rounded up to one grain of the protocols.
_SMALLEST_BYTES = 256
_COLUMNS = (
    "system",
    "topology",
    "pairs",
    "cpu",
    "gpu",
    "nccl_version",
    "numa",
    "peer_access",
    "env",
    "timed_by",
    "note",
)
#: Programs whose times are not those of nccl-tests, and do not enter its errors.
_OTHER_PROGRAMS = ("SGLang", "torch.distributed")


def _folder() -> Path:
    return published() / "collectives"


@dataclass(frozen=True)
class MeasuredCase:
    """Measured times of one operation on one machine."""

    system: str  # Machine and settings
    operation: Operation
    #: Sizes in bytes and times in s, shape (sizes,).
    size_bytes: NDArray[np.float64]
    measured_s: NDArray[np.float64]
    source: str  # Origin of the times

    def forecast_s(self, known: Constants | None = None) -> NDArray[np.float64]:
        """Return the forecast at each size in s."""
        model = self.model(known)
        return model.chosen_times(model.choices(self.size_bytes), self.size_bytes)

    def model(self, known: Constants | None = None, *, with_pairs: bool = True) -> CollectiveModel:
        """Return the time model of the operation on the machine, with or without its measured pairs."""
        communicator = measured_machine(self.system, with_pairs=with_pairs)
        return CollectiveModel(communicator, self.operation, nccl_plan(communicator), known)

    def of_class(self, name: str) -> NDArray[np.bool_]:
        """Return whether each size is of a class."""
        return np.array([size_class(size) == name for size in self.size_bytes.tolist()])


@lru_cache(maxsize=1)
def _machines() -> dict[str, CsvRow]:
    return {row["system"]: row for row in read_csv(_folder() / "machines.csv", _COLUMNS)}


def gpu_of(system: str) -> str:
    """Return the GPU model of a machine."""
    return _machines()[system]["gpu"]


def is_of_nccl_tests(system: str) -> bool:
    """Return whether no program other than nccl-tests is known to have timed the operations of a machine."""
    return _machines()[system]["timed_by"] not in _OTHER_PROGRAMS


@lru_cache(maxsize=32)
def measured_machine(system: str, *, with_pairs: bool = True) -> Communicator:
    """Return the GPUs of a machine of the measured operations (config/published/collectives/machines.csv).

    Without pairs, only its links are known, as on most machines of users.
    """
    row = _machines()[system]
    capability = gpu_model(row["gpu"]).capability
    assert capability is not None, "all measured machines have GPUs of NVIDIA"
    settings = NcclSettings(
        cpu=Cpu(row["cpu"]),
        capability=capability,
        version=parse_version(row["nccl_version"]) if row["nccl_version"] else NEWEST,
        numa_nodes=tuple(int(node) for node in row["numa"].split()) or None,
        has_peer_access=row["peer_access"] == "yes",
    )
    settings = with_environment(settings, dict(pair.split("=") for pair in row["env"].split()))
    tree = load_tree(str(_folder() / "topologies" / f"{row['topology']}.yaml"))
    facts, options = (_pairs(), MachineOptions(system=row["pairs"])) if with_pairs else (Facts(), MachineOptions())
    machine = machine_of_tree(tree, facts, options)
    return communicator(machine, settings=settings)


@lru_cache(maxsize=1)
def _pairs() -> Facts:
    return load_facts([_folder() / "pairs.csv"], Content.COPIES)


@lru_cache(maxsize=1)
def measured_cases() -> Sequence[MeasuredCase]:
    """Return the measured operations from 256 bytes on, one case per machine and operation."""
    rows = read_csv(_folder() / "measurements.csv", ["system", "operation", "bytes", "time_us", "source"], ["note"])
    grouped: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for row in rows:
        if row.number("bytes") >= _SMALLEST_BYTES:
            value = (row.number("bytes"), row.number("time_us") * 1e-6, row["source"])
            grouped.setdefault((row["system"], row["operation"]), []).append(value)
    return tuple(
        MeasuredCase(
            system,
            Operation(operation),
            np.array([value[0] for value in values]),
            np.array([value[1] for value in values]),
            values[0][2],
        )
        for (system, operation), values in grouped.items()
    )
