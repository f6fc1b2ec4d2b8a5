"""What a PCIe tree consists of: vertices, direct links between endpoints, routes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MemoryNode", "PeerLink", "RouteRule", "Routes", "Vertex", "direct_rates", "pci_address"]


@dataclass(frozen=True)
class Vertex:
    """One vertex of a PCIe tree.

    Parameters
    ----------
    name : str
        Unique name.
    kind : {'system', 'root_complex', 'switch', 'endpoint'}
        What it is.
    parent : str or None
        Name of the vertex above; None for the root.
    capacity : float, default 1.0
        Capacity of each direction of the link to the parent, as a multiple of the
        reference bandwidth.
    label : str, default ''
        Where it was read, such as a bus id.
    uplink_groups : tuple of tuple of str, default ()
        A switch with several upstream ports lists the endpoints that use each of them.
    generation, width : int or None, default None
        PCIe generation and lanes of the link to the parent, where they are known.
    switches_above : int, default 0
        Switches on the link to the parent that have no other child and are not drawn.
    network_card : bool, default False
        Whether the endpoint is a network card; accelerators run ranks of a program.
    host_memory : bool, default False
        Whether the endpoint is host memory.
    """

    name: str
    kind: str
    parent: str | None
    capacity: float = 1.0
    label: str = ""
    uplink_groups: tuple[tuple[str, ...], ...] = ()
    generation: int | None = None
    width: int | None = None
    switches_above: int = 0
    network_card: bool = False
    host_memory: bool = False


@dataclass(frozen=True)
class MemoryNode:
    """Memory of a NUMA node, at a root complex.

    Parameters
    ----------
    name : str
        Unique name, also among vertices.
    parent : str
        Name of its root complex.
    capacity : float or None, default None
        What it serves to or takes from all GPUs, as a multiple of the reference bandwidth; None where nobody told.
    """

    name: str
    parent: str
    capacity: float | None = None


@dataclass(frozen=True)
class PeerLink:
    """Direct links between endpoints, beside the tree.

    Parameters
    ----------
    kind : {'NVLink', 'NVSwitch', 'xGMI'}
        What they are.
    endpoints : tuple of str
        Endpoints that they join, each with each other.
    bytes_per_s : float or None, default None
        What each direction carries between two of them, through an NVSwitch to and from each of them; None where the
        file does not tell.
    """

    kind: str
    endpoints: tuple[str, ...]
    bytes_per_s: float | None = None


def direct_rates(links: Sequence[PeerLink]) -> dict[tuple[str, str], float]:
    """Return what each direction of direct links carries in bytes/s, by source and target; only where that is told.

    Examples
    --------
    >>> direct_rates([PeerLink("NVLink", ("0", "1"), 50e9), PeerLink("xGMI", ("2", "3"))])
    {('0', '1'): 50000000000.0, ('1', '0'): 50000000000.0}
    """
    told = [link for link in links if link.bytes_per_s is not None]
    return {pair: link.bytes_per_s or 0.0 for link in told for pair in itertools.permutations(link.endpoints, 2)}


@dataclass(frozen=True)
class Routes:
    """Routes of all ordered endpoint pairs as the arrays that kernels read.

    Links are numbered so that every route ascends: upstream links first, deepest
    first, then downstream links, shallowest first.

    Parameters
    ----------
    offset : ndarray of int64, shape (endpoints**2 + 1,)
        Where the route of pair ``source * endpoints + target`` starts in `link`.
    link : ndarray of int64
        Link numbers of all routes, one after the other.
    crossing : ndarray of bool, shape (endpoints**2,)
        Whether the route turns at a root complex or above it.
    capacity : ndarray of float64, shape (links,)
        Link capacity as a multiple of the reference bandwidth.
    leaves_root_complex : ndarray of bool, shape (links,)
        Whether the link is a downstream port of a root complex.
    behind_root_complex : ndarray of bool, shape (links,)
        Whether the link starts at a root complex or above it, so that what it carries has
        passed one.
    upstream_links : int
        How many of the links point upstream.
    endpoints : int
        Number of endpoints.
    """

    offset: NDArray[np.int64]
    link: NDArray[np.int64]
    crossing: NDArray[np.bool_]
    capacity: NDArray[np.float64]
    leaves_root_complex: NDArray[np.bool_]
    behind_root_complex: NDArray[np.bool_]
    upstream_links: int
    endpoints: int


@dataclass(frozen=True)
class RouteRule:
    """A route that turns above the nearest vertex over both ends, as with access control services of PCIe (ACS).

    Parameters
    ----------
    source, target : str
        Endpoints; ``*`` stands for every one below `turn`.
    turn : str
        Vertex at which copies from source to target turn, above both.
    """

    source: str
    target: str
    turn: str

    def __str__(self) -> str:
        return f"route from '{self.source}' to '{self.target}'"

    def matches(self, source: str, target: str) -> bool:
        """Whether the rule is for copies from one endpoint to another."""
        return self.source in ("*", source) and self.target in ("*", target)


def pci_address(bus_id: str) -> tuple[int, ...]:
    """Return domain, bus, device and function of a PCI address; nothing where it is none.

    CUDA and hwloc write the domain with other digits, or leave it out.

    Examples
    --------
    >>> pci_address("0000:3B:00.0"), pci_address("3b:00.0"), pci_address("S0")
    ((0, 59, 0, 0), (0, 59, 0, 0), ())
    """
    try:
        numbers = [int(part, 16) for part in bus_id.replace(".", ":").split(":")]
    except ValueError:
        return ()
    return tuple(numbers if len(numbers) == 4 else [0, *numbers]) if len(numbers) in (3, 4) else ()
