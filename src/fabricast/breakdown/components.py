"""Latency components of small messages and systems with measured component times.

Every total is a linear form of the components. Shares, what-if results and sensitivities follow from one
table of coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.parameters import Tag
from fabricast.inputs.yaml_files import load_model

__all__ = [
    "COMPONENTS",
    "GROUPS",
    "METRICS",
    "SYSTEM_TITLES",
    "Component",
    "ComponentKind",
    "System",
    "form",
    "form_names",
    "read_system_file",
    "read_systems",
]

Layer = Literal["CPU", "I/O", "Network"]


@dataclass(frozen=True)
class ComponentKind:
    """Properties of a latency component.

    Parameters
    ----------
    title : str
        Display name in figures.
    layer : {'CPU', 'I/O', 'Network'}
        Layer in which the time is spent.
    side : str
        Side of the transfer: initiator, target, both or fabric.
    parent : str
        Group of the component.
    """

    title: str
    layer: Layer
    side: str
    parent: str


#: Display names of the systems in this repository; user-supplied systems keep their names.
SYSTEM_TITLES = {"thunderx2": "ThunderX2", "integrated_nic": "integrated NIC"}

#: Components by name, in path order. HLP (high-level protocol) is MPICH with UCP, LLP (low-level) is UCT.
COMPONENTS = {
    "hlp_post": ComponentKind("HLP post", "CPU", "initiator", "post"),
    "md_setup": ComponentKind("descriptor setup", "CPU", "initiator", "llp_post"),
    "md_barrier": ComponentKind("barrier, descriptor", "CPU", "initiator", "llp_post"),
    "dbc_barrier": ComponentKind("barrier, doorbell", "CPU", "initiator", "llp_post"),
    "pio_copy": ComponentKind("PIO copy", "CPU", "initiator", "llp_post"),
    "llp_post_other": ComponentKind("other", "CPU", "initiator", "llp_post"),
    "pcie": ComponentKind("PCIe", "I/O", "both", "io"),
    "wire": ComponentKind("wire", "Network", "fabric", "network"),
    "switch": ComponentKind("switch", "Network", "fabric", "network"),
    "rc_to_mem": ComponentKind("RC to memory", "I/O", "target", "io"),
    "llp_prog": ComponentKind("LLP progress", "CPU", "both", "progress"),
    "hlp_rx_prog": ComponentKind("HLP receive progress", "CPU", "target", "progress"),
    "hlp_tx_prog": ComponentKind("HLP send progress", "CPU", "initiator", "progress"),
    "injection_misc": ComponentKind("miscellaneous", "CPU", "initiator", "injection"),
    "busy_post": ComponentKind("busy posts", "CPU", "initiator", "injection_llp"),
    "measurement_update": ComponentKind("measurement update", "CPU", "initiator", "injection_llp"),
}
#: Components that only the low-level protocol benchmark has.
OPTIONAL = ("busy_post", "measurement_update")

_LLP_POST = ("md_setup", "md_barrier", "dbc_barrier", "pio_copy", "llp_post_other")
#: Groups of components that a what-if analysis reduces together.
GROUPS: dict[str, tuple[str, ...]] = {
    "llp_post": _LLP_POST,
    "llp": (*_LLP_POST, "llp_prog"),
    "hlp": ("hlp_post", "hlp_tx_prog", "hlp_rx_prog"),
    "integrated_nic": ("pcie", "rc_to_mem"),
    "cpu": tuple(name for name, kind in COMPONENTS.items() if kind.layer == "CPU"),
    "io": ("pcie", "rc_to_mem"),
    "network": ("wire", "switch"),
    **{name: (name,) for name in COMPONENTS},
}

#: Totals by the name of their linear form, with a description.
METRICS = {
    "injection": "injection overhead, all layers",
    "injection_llp": "injection overhead, LLP benchmark",
    "latency": "end-to-end latency, all layers",
    "latency_llp": "latency, LLP only",
}


class Component(BaseModel):
    """Measured, published or assumed time of a component."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_ns: float = Field(ge=0, le=1e15, allow_inf_nan=False)
    spread_ns: float = Field(0.0, ge=0, le=1e15, allow_inf_nan=False)
    tag: Tag = "assumed"
    source: str = ""


class System(BaseModel):
    """System with component times and number of posts per completion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    posts_per_completion: int = Field(64, ge=1, le=1_000_000)
    components: dict[str, Component]

    def time_ns(self, name: str) -> float:
        """Return the time of a component in ns; 0 if the component is missing."""
        component = self.components.get(name)
        return component.time_ns if component else 0.0

    def total_ns(self, name: str) -> float:
        """Return the value of a linear form in ns (see `form`)."""
        return math.fsum(weight * self.time_ns(c) for c, weight in form(name, self.posts_per_completion).items())


def _sum(*parts: Mapping[str, float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, weight in part.items():
            total[name] = total.get(name, 0.0) + weight
    return total


def _forms(posts_per_completion: int) -> dict[str, dict[str, float]]:
    single = {name: {name: 1.0} for name in COMPONENTS}
    llp_post = dict.fromkeys(_LLP_POST, 1.0)
    llp_tx_prog = {"llp_prog": 1.0 / posts_per_completion}
    post = _sum(llp_post, single["hlp_post"])
    progress_tx = _sum(single["hlp_tx_prog"], llp_tx_prog)
    network = _sum(single["wire"], single["switch"])
    io = {"pcie": 2.0, "rc_to_mem": 1.0}
    progress_rx = _sum(single["llp_prog"], single["hlp_rx_prog"])
    target_io = _sum(single["pcie"], single["rc_to_mem"])
    initiator = _sum(post, single["pcie"])
    target = _sum(target_io, progress_rx)
    forms = {
        "llp_post": llp_post,
        "llp_tx_prog": llp_tx_prog,
        "post": post,
        "progress_tx": progress_tx,
        # Slides 30-33: injection = Post + Progress + Misc.
        "injection": _sum(post, progress_tx, single["injection_misc"]),
        "injection_llp": _sum(llp_post, single["llp_prog"], single["busy_post"], single["measurement_update"]),
        # Slide 38: latency = Post + 2 PCIe + Network + RC-to-MEM + Progress of the receiver.
        "cpu": _sum(post, progress_rx),
        "io": io,
        "network": network,
        "latency": _sum(post, io, network, progress_rx),
        "latency_llp": _sum(llp_post, io, network, single["llp_prog"]),
        "llp_latency": _sum(llp_post, single["llp_prog"]),
        "hlp_latency": _sum(single["hlp_post"], single["hlp_rx_prog"]),
        "pcie_twice": {"pcie": 2.0},
        "initiator": initiator,
        "target": target,
        "target_io": target_io,
        "target_cpu": progress_rx,
        "on_node": _sum(initiator, target),
    }
    return single | forms


def form_names() -> tuple[str, ...]:
    """Return the names of all linear forms."""
    return tuple(_forms(1))


def form(name: str, posts_per_completion: int) -> dict[str, float]:
    """Return the component weights of a linear form.

    Parameters
    ----------
    name : str
        Name of a total, subtotal or component.
    posts_per_completion : int
        Number of posts that one signalled completion covers.

    Returns
    -------
    dict
        Weight of each component.

    Raises
    ------
    InputError
        If the name is unknown.

    References
    ----------
    Zambre et al., "Breaking Band", slides 30-39.

    Examples
    --------
    >>> form("io", 64)
    {'pcie': 2.0, 'rc_to_mem': 1.0}
    """
    forms = _forms(posts_per_completion)
    if name not in forms:
        raise InputError(f"'{name}' is not a linear form of the model, expected one of {', '.join(forms)}")
    return forms[name]


def _checked(system: System, path: Path) -> System:
    for name in system.components:
        if name not in COMPONENTS:
            raise InputError(f"component '{name}' is unknown, expected one of {', '.join(COMPONENTS)}", path=path)
    missing = [name for name in COMPONENTS if name not in system.components and name not in OPTIONAL]
    if missing:
        raise InputError(f"system '{system.system}' lacks {', '.join(missing)}", path=path)
    return system


def read_system_file(path: Path | str) -> System:
    """Read a system from YAML.

    Parameters
    ----------
    path : Path or str
        File in the format of config/systems/integrated_nic.yaml.

    Returns
    -------
    System
        Validated system.

    Raises
    ------
    InputError
        If the file cannot be read or contains invalid values.
    """
    return _checked(load_model(path, System), Path(path))


def read_systems(path: Path | str) -> list[System]:
    """Read published systems from CSV with one row per component.

    Parameters
    ----------
    path : Path or str
        File in the format of config/published/breakdown_components.csv.

    Returns
    -------
    list of System
        Systems in file order.

    Raises
    ------
    InputError
        On the first invalid row.
    """
    path = Path(path)
    components: dict[str, dict[str, Component]] = {}
    for row in read_csv(path, ["system", "component", "time_ns", "spread_ns", "tag", "source"]):
        try:
            component = Component(
                time_ns=row.number("time_ns"),
                spread_ns=row.number("spread_ns"),
                tag=row["tag"],  # type: ignore[arg-type]
                source=row["source"],
            )
        except ValidationError as error:
            raise row.error(f"is not a component: {error}") from error
        if row["component"] in components.setdefault(row["system"], {}):
            raise row.error(f"component '{row['component']}' is a duplicate")
        components[row["system"]][row["component"]] = component
    return [
        _checked(System(system=name, posts_per_completion=64, components=parts), path)
        for name, parts in components.items()
    ]
