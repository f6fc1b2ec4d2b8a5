"""Components of the path of a small message, and the systems that have them.

Every total is a linear form of the components, so shares, what-if questions and
sensitivities are arithmetic on one table of coefficients.
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
    """What a component is.

    Parameters
    ----------
    title : str
        Name in figures.
    layer : {'CPU', 'I/O', 'Network'}
        Where the time passes.
    side : str
        initiator, target, both or fabric.
    parent : str
        Group it belongs to.
    """

    title: str
    layer: Layer
    side: str
    parent: str


#: How pictures and tables name the systems of the repository; others keep their names.
SYSTEM_TITLES = {"thunderx2": "ThunderX2", "integrated_nic": "integrated NIC"}

#: Components by name, in the order of the path. HLP is MPICH with UCP, LLP is UCT.
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
#: Only the benchmark of the low-level protocol has them.
OPTIONAL = ("busy_post", "measurement_update")

_LLP_POST = ("md_setup", "md_barrier", "dbc_barrier", "pio_copy", "llp_post_other")
#: Groups of components that what-if questions reduce together.
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

#: Totals: what they are, and the name of their linear form.
METRICS = {
    "injection": "injection overhead, all layers",
    "injection_llp": "injection overhead, LLP benchmark",
    "latency": "end-to-end latency, all layers",
    "latency_llp": "latency, LLP only",
}


class Component(BaseModel):
    """One measured, quoted or assumed time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_ns: float = Field(ge=0, le=1e15, allow_inf_nan=False)
    spread_ns: float = Field(0.0, ge=0, le=1e15, allow_inf_nan=False)
    tag: Tag = "assumed"
    source: str = ""


class System(BaseModel):
    """A machine: its components and how many posts one completion covers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    posts_per_completion: int = Field(64, ge=1, le=1_000_000)
    components: dict[str, Component]

    def time_ns(self, name: str) -> float:
        """Return the time of a component; 0 for an optional one that is missing."""
        found = self.components.get(name)
        return found.time_ns if found else 0.0

    def total_ns(self, name: str) -> float:
        """Return the value of a linear form (see `form`)."""
        return math.fsum(weight * self.time_ns(c) for c, weight in form(name, self.posts_per_completion).items())


def _sum(*parts: Mapping[str, float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, weight in part.items():
            total[name] = total.get(name, 0.0) + weight
    return total


def _forms(posts_per_completion: int) -> dict[str, dict[str, float]]:
    one = {name: {name: 1.0} for name in COMPONENTS}
    llp_post = dict.fromkeys(_LLP_POST, 1.0)
    llp_tx_prog = {"llp_prog": 1.0 / posts_per_completion}
    post = _sum(llp_post, one["hlp_post"])
    progress_tx = _sum(one["hlp_tx_prog"], llp_tx_prog)
    network = _sum(one["wire"], one["switch"])
    io = {"pcie": 2.0, "rc_to_mem": 1.0}
    progress_rx = _sum(one["llp_prog"], one["hlp_rx_prog"])
    target_io = _sum(one["pcie"], one["rc_to_mem"])
    initiator = _sum(post, one["pcie"])
    target = _sum(target_io, progress_rx)
    forms = {
        "llp_post": llp_post,
        "llp_tx_prog": llp_tx_prog,
        "post": post,
        "progress_tx": progress_tx,
        # Slides 30-33: injection = Post + Progress + Misc.
        "injection": _sum(post, progress_tx, one["injection_misc"]),
        "injection_llp": _sum(llp_post, one["llp_prog"], one["busy_post"], one["measurement_update"]),
        # Slide 38: latency = Post + 2 PCIe + Network + RC-to-MEM + Progress of the receiver.
        "cpu": _sum(post, progress_rx),
        "io": io,
        "network": network,
        "latency": _sum(post, io, network, progress_rx),
        "latency_llp": _sum(llp_post, io, network, one["llp_prog"]),
        "llp_latency": _sum(llp_post, one["llp_prog"]),
        "hlp_latency": _sum(one["hlp_post"], one["hlp_rx_prog"]),
        "pcie_twice": {"pcie": 2.0},
        "initiator": initiator,
        "target": target,
        "target_io": target_io,
        "target_cpu": progress_rx,
        "on_node": _sum(initiator, target),
    }
    return one | forms


def form_names() -> tuple[str, ...]:
    """Return the names of all linear forms."""
    return tuple(_forms(1))


def form(name: str, posts_per_completion: int) -> dict[str, float]:
    """Return a linear form: how often each component counts in it.

    Parameters
    ----------
    name : str
        Name of a total, a part of one, or a component.
    posts_per_completion : int
        Posts that one signalled completion covers.

    Returns
    -------
    dict
        Weight by component.

    Raises
    ------
    InputError
        If there is no such form.

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
        raise InputError(f"'{name}' is no part of the model, expected one of {', '.join(forms)}")
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
        File as config/systems/integrated_nic.yaml.

    Returns
    -------
    System
        The system.

    Raises
    ------
    InputError
        If the file is not as expected.
    """
    return _checked(load_model(path, System), Path(path))


def read_systems(path: Path | str) -> list[System]:
    """Read published systems from CSV with one row a component.

    Parameters
    ----------
    path : Path or str
        File as config/published/breakdown_components.csv.

    Returns
    -------
    list of System
        The systems in file order.

    Raises
    ------
    InputError
        On the first row that is wrong.
    """
    path = Path(path)
    found: dict[str, dict[str, Component]] = {}
    for row in read_csv(path, ["system", "component", "time_ns", "spread_ns", "tag", "source"]):
        try:
            component = Component(
                time_ns=row.number("time_ns"), spread_ns=row.number("spread_ns"), tag=row["tag"],  # type: ignore[arg-type]
                source=row["source"],
            )  # fmt: skip
        except ValidationError as error:
            raise row.error(f"is not a component: {error}") from error
        if row["component"] in found.setdefault(row["system"], {}):
            raise row.error(f"component '{row['component']}' is a duplicate")
        found[row["system"]][row["component"]] = component
    return [
        _checked(System(system=name, posts_per_completion=64, components=parts), path) for name, parts in found.items()
    ]
