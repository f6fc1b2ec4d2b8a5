"""Descriptions of one machine by several programs, and what contradicts in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricast.core.facts import Place
from fabricast.pcie.topology.memory import root_complex_of
from fabricast.pcie.topology.tree import PcieTree

_BELOW_SWITCHES = ("PIX", "PXB")
#: Relative tolerance of link rates, which programs round.
_SAME_RATE = 0.02


@dataclass(frozen=True)
class Described:
    """Description of a machine by one program."""

    program: str  # Program that printed it
    place: Place  # File and line
    tree: PcieTree  # Topology
    #: Whether the program printed which GPUs are on one socket, and which are below a switch. Otherwise the tree has
    #: assumptions, which are not compared.
    has_sockets: bool = True
    has_switches: bool = True
    #: Whether it printed the bridges above the GPUs; without them each GPU seems to have another host bridge.
    has_bridges: bool = True

    @property
    def origin(self) -> str:
        """File and program."""
        return f"{self.place.path} ({self.program})"


def contradictions(first: Described, other: Described) -> Iterator[str]:
    """Yield how another description differs from the first one: number of GPUs, links, NUMA nodes, path classes."""
    ours, theirs = first.tree.accelerator_names, other.tree.accelerator_names
    end = f"as in {first.origin}: the files contradict each other"
    if len(ours) != len(theirs):
        yield f"{other.place.path} has {len(theirs)} GPUs, expected {len(ours)} as in {first.origin}"
        return
    for one, same in zip(ours, theirs, strict=True):
        widths = first.tree.vertex(one).width, other.tree.vertex(same).width
        if None not in widths and widths[0] != widths[1]:
            yield f"{other.place.path}: GPU {one} has a link of x{widths[1]}, expected x{widths[0]} {end}"
        nodes = _numa_node(first.tree, one), _numa_node(other.tree, same)
        if None not in nodes and nodes[0] != nodes[1]:
            yield f"{other.place.path}: GPU {one} is at {nodes[1]}, expected {nodes[0]} {end}"
    for number, one in enumerate(ours):
        for place in range(number + 1, len(ours)):
            yield from _of_pair(first, other, (one, ours[place]), (theirs[number], theirs[place]), end)
    rates = first.tree.link_bytes_per_s, other.tree.link_bytes_per_s
    if rates[0] is not None and rates[1] is not None and abs(rates[0] / rates[1] - 1) > _SAME_RATE:
        yield (
            f"{other.place.path} has links of {rates[1] / 1e9:.4g} GB/s, expected {rates[0] / 1e9:.4g} GB/s as in "
            f"{first.origin}: idle links may have been slower when a file was written"
        )


def _numa_node(tree: PcieTree, gpu: str) -> str | None:
    """Return the name of the only NUMA node at the root complex of a GPU."""
    root = root_complex_of(tree, gpu)
    nodes = [node.name for node in tree.memory_nodes if node.parent == root]
    return nodes[0] if len(nodes) == 1 else None


def _of_pair(
    first: Described, other: Described, ours: tuple[str, str], theirs: tuple[str, str], end: str
) -> Iterator[str]:
    """Yield how the path class of a pair of GPUs differs, as far as both programs printed it."""
    if other.tree.peer_link(*theirs) or first.tree.peer_link(*ours):
        # nvidia-smi prints the direct link instead of the path.
        return
    mine, their = first.tree.path_class(*ours), other.tree.path_class(*theirs)
    sockets = first.has_sockets and other.has_sockets and (mine == "SYS") != (their == "SYS")
    switches = first.has_switches and other.has_switches and (mine in _BELOW_SWITCHES) != (their in _BELOW_SWITCHES)
    if sockets or switches:
        yield (
            f"{other.place.path}: GPUs {ours[0]} and {ours[1]} have class {their} ({_words(their)}), expected {mine} "
            f"({_words(mine)}) {end}"
        )


def _words(path_class: str) -> str:
    if path_class in _BELOW_SWITCHES:
        return "below a switch"
    return "between NUMA nodes" if path_class == "SYS" else "in a NUMA node"
