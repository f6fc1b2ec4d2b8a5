"""Elements of PCIe trees: vertices, memory nodes, direct links and routes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricast.core.warnings import CodedWarning, WarningCode

#: CodedWarning of every imported tree with several sockets.
INTER_SOCKET_ASSUMED = CodedWarning(
    WarningCode.INTER_SOCKET_CAPACITY_ASSUMED,
    "the link between NUMA nodes is assumed to have the bandwidth of one PCIe link",
)
#: CodedWarning of every imported tree with several host bridges of a socket.
BRIDGES_ASSUMED = CodedWarning(
    WarningCode.TOPOLOGY_NOTE,
    "the capacity between host bridges of a socket is unknown: it is assumed not to be a bottleneck; measure several "
    "copies between them ('fabricast probes machine.yaml --run')",
)
#: How to specify link speeds that no file has.
LINK_SPEED_REMEDY = (
    "specify them with 'fabricast topology import FILE --gpu MODEL' or '--link gen4x16'; 'sudo lspci -vv' prints "
    "LnkCap and LnkSta"
)


@dataclass(frozen=True)
class Vertex:
    """Vertex of a PCIe tree, with the link to its parent."""

    name: str  # Unique name
    #: Kind of device. A system connects several sockets, and a socket connects several root complexes. A socket with
    #: one root complex is represented by the root complex: 'system', 'socket', 'root_complex', 'switch', 'endpoint'.
    kind: str
    parent: str | None  # Name of the vertex above; None for the root
    #: Capacity of each direction of the link to the parent, as a multiple of the reference bandwidth.
    capacity: float = 1.0
    label: str = ""  # Identifier in the input file, such as a PCI bus id
    #: Endpoints that use each upstream port of a switch with several upstream ports.
    uplink_groups: tuple[tuple[str, ...], ...] = ()
    #: PCIe generation and number of lanes of the link to the parent; None if unknown.
    generation: int | None = None
    width: int | None = None
    #: Number of switches on the link to the parent that have no other child. They are merged into the link.
    switches_above: int = 0
    #: Whether the endpoint is a network card. Network cards do not run ranks of collective operations.
    network_card: bool = False
    host_memory: bool = False  # Whether the endpoint is host memory


@dataclass(frozen=True)
class MemoryNode:
    """Host memory of a NUMA node, attached to a root complex."""

    name: str  # Name, unique among memory nodes and vertices
    parent: str  # Name of its root complex
    #: Aggregate read or write capacity in units of the reference bandwidth; None if unknown.
    capacity: float | None = None


@dataclass(frozen=True)
class PeerLink:
    """Direct links between endpoints, which are not part of the PCIe tree."""

    kind: str  # Kind of links: 'NVLink', 'NVSwitch', 'xGMI'
    endpoints: tuple[str, ...]  # Names of the endpoints, which are pairwise connected
    #: Bandwidth of each direction in bytes/s; None if unknown. It applies to each pair of endpoints, or to the links
    #: between each endpoint and an NVSwitch.
    bytes_per_s: float | None = None
    #: Number of links of the pair, or of each endpoint to an NVSwitch; None if unknown. It is not compared.
    links: int | None = field(default=None, compare=False)

    @property
    def copy_bytes_per_s(self) -> float | None:
        """Highest rate of one copy: an engine of AMD sends over one of several xGMI links (MI250X: 50.3 GB/s)."""
        if self.kind == "xGMI" and self.bytes_per_s is not None and self.links is not None:
            return self.bytes_per_s / self.links
        return self.bytes_per_s


def direct_rates(links: Sequence[PeerLink], *, of_one_copy: bool = False) -> dict[tuple[str, str], float]:
    """Return the bandwidth of each direct link in bytes/s, or that of one copy, keyed by (source, target).

    Links of unknown bandwidth are omitted.

    >>> direct_rates([PeerLink("NVLink", ("0", "1"), 50e9), PeerLink("xGMI", ("2", "3"))])
    {('0', '1'): 50000000000.0, ('1', '0'): 50000000000.0}
    """
    rates = [(link, link.copy_bytes_per_s if of_one_copy else link.bytes_per_s) for link in links]
    rated = [(link, rate) for link, rate in rates if rate is not None]
    return {pair: rate for link, rate in rated for pair in itertools.permutations(link.endpoints, 2)}


@dataclass(frozen=True)
class Routes:
    """Routes of all ordered endpoint pairs, stored as arrays for kernels.

    The link numbers of every route ascend: upstream links come first, from the deepest to the shallowest, then
    downstream links, from the shallowest to the deepest.
    """

    #: Index in `link` of the first link of pair ``source * endpoints + target``, followed by the size of `link`, shape
    #: (endpoints**2 + 1,).
    offset: NDArray[np.int64]
    link: NDArray[np.int64]  # Link numbers of all routes, concatenated
    crossing: NDArray[np.bool_]  # Whether the route turns at a root complex or above it, shape (endpoints**2,)
    capacity: NDArray[np.float64]  # Link capacity as a multiple of the reference bandwidth, shape (links,)
    leaves_root_complex: NDArray[np.bool_]  # Whether the link is a downstream port of a root complex, shape (links,)
    #: Whether the link starts at a root complex or above it, so that its traffic has passed a root complex, shape
    #: (links,).
    behind_root_complex: NDArray[np.bool_]
    upstream_links: int  # Number of upstream links
    endpoints: int  # Number of endpoints


@dataclass(frozen=True)
class RouteRule:
    """Rule for routes that turn above the lowest common ancestor of their endpoints.

    PCIe access control services (ACS) cause such routes: they redirect peer-to-peer traffic to the root complex.
    """

    #: Names of endpoints; ``*`` matches every endpoint below `turn`.
    source: str
    target: str
    turn: str  # Vertex above both endpoints, at which copies from source to target turn from upstream to downstream

    def __str__(self) -> str:
        return f"route from '{self.source}' to '{self.target}'"

    def matches(self, source: str, target: str) -> bool:
        """Return whether the rule matches the endpoints of a copy.

        The position of `turn` is not checked.
        """
        return self.source in ("*", source) and self.target in ("*", target)


def imported_name(text: str) -> str:
    """Return the name of an imported tree: a file name without characters that names do not permit.

    >>> imported_name("my machine (2)"), imported_name("")
    ('my_machine__2_', 'imported')
    """
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in text)[:200] or "imported"


def pairs_without_link(endpoints: Sequence[str], links: Sequence[PeerLink]) -> tuple[tuple[str, str], ...]:
    """Return the ordered pairs of endpoints without a direct link.

    >>> pairs_without_link(("0", "1", "2"), (PeerLink("NVLink", ("0", "1")),))
    (('0', '2'), ('1', '2'), ('2', '0'), ('2', '1'))
    """
    linked = {pair for link in links for pair in itertools.permutations(link.endpoints, 2)}
    return tuple(pair for pair in itertools.permutations(endpoints, 2) if pair not in linked)


def pci_address(bus_id: str) -> tuple[int, ...]:
    """Return domain, bus, device and function of a PCI address, or an empty tuple.

    CUDA and hwloc write the domain with different numbers of digits or omit it, so addresses are compared as numbers.

    >>> pci_address("0000:3B:00.0"), pci_address("3b:00.0"), pci_address("S0")
    ((0, 59, 0, 0), (0, 59, 0, 0), ())
    """
    try:
        numbers = [int(part, 16) for part in bus_id.replace(".", ":").split(":")]
    except ValueError:
        return ()
    return tuple(numbers if len(numbers) == 4 else [0, *numbers]) if len(numbers) in (3, 4) else ()
