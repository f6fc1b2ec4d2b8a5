"""Descriptions of clusters in YAML: nodes, network cards, and the network between nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from fabricast.core.errors import InputError
from fabricast.inputs.yaml_files import read_yaml, validate

_MOST_NODES = 100_000


@dataclass(frozen=True)
class NodeKind:
    """Equal nodes of a cluster."""

    node: str  # Name of a node that is built in, or path of a file that describes one
    count: int  # Number of nodes
    nic: str | None = None  # Network cards of a node and Gbit/s of each, such as ``"8x400"``


@dataclass(frozen=True)
class ClusterStatement:
    """Statements of a file about a cluster; None for what it does not state."""

    name: str
    kinds: tuple[NodeKind, ...]  # Nodes in their order
    gpu: str | None = None  # Model of the GPUs, if a file of a node does not name it
    gpus: int | None = None  # GPUs of each node that are used
    network: str | None = None  # Kind of network, such as InfiniBand
    switches: str | None = None  # Network of switches: words such as ``"fat_tree:2,64,32@400"``, or path of a file
    hosts: str | None = None  # Host of each node in the network of switches: a node list of Slurm, or path of a file
    oversubscription: float | None = None  # Ratio of the rate of the cards to that of the network above them
    gpus_per_process: int | None = None  # GPUs of each process
    #: Whether cards use GPUDirect, and whether NVLink SHARP is available.
    gpudirect: bool | None = None
    nvls: bool | None = None
    nccl_version: str | None = None  # Version of NCCL
    env: dict[str, str] = field(default_factory=dict)  # Environment variables of NCCL
    latency_us: float | None = None  # Time of a small message between two nodes
    process_gbyte_s: float | None = None  # Largest rate of one process over the network in GB/s

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(kind.count for kind in self.kinds)


class _NodeEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str = Field(min_length=1, max_length=1000)
    count: int = Field(1, ge=1, le=_MOST_NODES)
    nic: str | None = None


class _Common(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    cluster: str = Field(min_length=1, max_length=200)
    nic: str | None = None
    gpu: str | None = None
    gpus: int | None = Field(None, ge=1, le=_MOST_NODES)
    network: str | None = None
    switches: str | None = None
    hosts: str | None = None
    oversubscription: float | None = Field(None, ge=1, le=100)
    gpus_per_process: int | None = Field(None, ge=1, le=1024)
    gpudirect: bool | None = None
    nvls: bool | None = None
    nccl_version: str | None = None
    env: dict[str, str] = {}
    latency_us: float | None = Field(None, gt=0, le=1e6, allow_inf_nan=False)
    process_gbyte_s: float | None = Field(None, gt=0, le=1e4, allow_inf_nan=False)


class _EqualNodes(_Common):
    node: str = Field(min_length=1, max_length=1000)
    nodes: int = Field(ge=1, le=_MOST_NODES)


class _ListedNodes(_Common):
    nodes: list[_NodeEntry] = Field(min_length=1, max_length=_MOST_NODES)


def read_cluster(path: Path | str, text: str | None = None) -> ClusterStatement:
    r"""Read a description of a cluster from a YAML file, or from its text.

    >>> text = "cluster: small\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n"
    >>> read_cluster("small.yaml", text).kinds
    (NodeKind(node='hgx_h100', count=4, nic='8x400'),)
    """
    value, lines = read_yaml(path, text)
    if isinstance(value, dict) and isinstance(value.get("cluster"), dict):
        raise InputError(
            "key 'cluster' is a name, such as 'cluster: mine'; node, nodes and nic are on its level, not below",
            path=Path(path),
            line=lines.get(("cluster",)),
        )
    is_listed = isinstance(value, dict) and isinstance(value.get("nodes"), list)
    entry: _ListedNodes | _EqualNodes
    if is_listed:
        entry = validate(_ListedNodes, value, path=path, lines=lines)
        entries = entry.nodes
    else:
        entry = validate(_EqualNodes, value, path=path, lines=lines)
        entries = [_NodeEntry(node=entry.node, count=entry.nodes)]
    folder = Path(path).parent
    kinds = tuple(NodeKind(_beside(folder, one.node), one.count, one.nic or entry.nic) for one in entries)
    if sum(kind.count for kind in kinds) > _MOST_NODES:
        raise InputError(f"nodes are more than {_MOST_NODES:,}", path=path, line=lines.get(("nodes",)))
    return ClusterStatement(
        entry.cluster,
        kinds,
        switches=None if entry.switches is None else _beside(folder, entry.switches),
        hosts=None if entry.hosts is None else _beside(folder, entry.hosts),
        **entry.model_dump(exclude={"cluster", "node", "nodes", "nic", "switches", "hosts"}),
    )


def files_of_cluster(path: str) -> list[str]:
    """Return the names in a description of a cluster that may be files; none for other files."""
    if not path.lower().endswith((".yaml", ".yml")) or not Path(path).is_file():
        return []
    try:
        found = read_cluster(path)
    except InputError:
        # The job that reads it names what is wrong.
        return []
    return [name for name in (*(kind.node for kind in found.kinds), found.switches, found.hosts) if name is not None]


def _beside(folder: Path, name: str) -> str:
    """Return the path of a file in the folder of the description; other names are unchanged."""
    beside = folder / name
    return str(beside) if not Path(name).is_absolute() and beside.is_file() else name
