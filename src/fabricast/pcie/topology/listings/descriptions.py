"""Descriptions of one machine by several programs, and their comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fabricast.core.errors import InputError, NoAcceleratorError
from fabricast.pcie.topology.memory import root_complex_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["Described", "compare"]


@dataclass(frozen=True)
class Described:
    """Description of a machine by one program.

    Parameters
    ----------
    program : str
        Program that printed it.
    path : Path
        File.
    tree : PcieTree
        Topology.
    has_sockets, has_switches, has_speeds : bool
        Whether the program printed which GPUs are on one socket, which are below a switch, and link speeds. Otherwise
        the tree has assumptions, which are not compared.
    gpu : str or None
        GPU model that the program printed.
    payload_bytes : int or None
        Smallest MaxPayload of the GPUs.
    """

    program: str
    path: Path
    tree: PcieTree
    has_sockets: bool = True
    has_switches: bool = True
    has_speeds: bool = True
    gpu: str | None = None
    payload_bytes: int | None = None


def compare(first: Described, other: Described) -> None:
    """Check that two files describe the same paths, link widths and link speeds."""
    ours, theirs = first.tree.accelerator_names, other.tree.accelerator_names
    if len(ours) != len(theirs):
        raise InputError(
            f"has {len(theirs)} GPUs, expected {len(ours)} as in {first.path} ({first.program})", path=other.path
        )
    if not ours:
        raise NoAcceleratorError("has no accelerator", path=first.path)
    for number, one in enumerate(ours):
        mine_width, their_width = (
            tree.vertex(name).width for tree, name in ((first.tree, one), (other.tree, theirs[number]))
        )
        if mine_width is not None and their_width is not None and mine_width != their_width:
            raise InputError(
                f"GPU {one} has a link of x{their_width}, expected x{mine_width} as in {first.path} ({first.program}): "
                "the files contradict each other",
                path=other.path,
            )
        nodes = _numa_node(first.tree, one), _numa_node(other.tree, theirs[number])
        if None not in nodes and nodes[0] != nodes[1]:
            raise InputError(
                f"GPU {one} is at {nodes[1]}, expected {nodes[0]} as in {first.path} ({first.program}): the files "
                "contradict each other",
                path=other.path,
            )
        for place in range(number + 1, len(ours)):
            _compare_pair(first, other, (one, ours[place]), (theirs[number], theirs[place]))
    rates = first.tree.link_bytes_per_s, other.tree.link_bytes_per_s
    if not (first.has_speeds and other.has_speeds) or rates[0] is None or rates[1] is None:
        return
    if abs(rates[0] / rates[1] - 1) > _SAME_RATE:
        raise InputError(
            f"has links of {rates[1] / 1e9:.4g} GB/s, expected {rates[0] / 1e9:.4g} GB/s as in {first.path} "
            f"({first.program}): idle links may have been slower when a file was written",
            path=other.path,
        )


def _numa_node(tree: PcieTree, gpu: str) -> str | None:
    """Return the name of the only NUMA node at the root complex of a GPU."""
    root = root_complex_of(tree, gpu)
    nodes = [node.name for node in tree.memory_nodes if node.parent == root]
    return nodes[0] if len(nodes) == 1 else None


def _compare_pair(first: Described, other: Described, ours: tuple[str, str], theirs: tuple[str, str]) -> None:
    """Check that a pair of GPUs has the same path class, as far as both programs printed it."""
    if other.tree.peer_link(*theirs) or first.tree.peer_link(*ours):
        # nvidia-smi prints the direct link instead of the path.
        return
    mine, their = first.tree.path_class(*ours), other.tree.path_class(*theirs)
    sockets = first.has_sockets and other.has_sockets and (mine == "SYS") != (their == "SYS")
    switches = first.has_switches and other.has_switches and (mine in _BELOW_SWITCHES) != (their in _BELOW_SWITCHES)
    if sockets or switches:
        raise InputError(
            f"GPUs {ours[0]} and {ours[1]} have class {their} ({_words(their)}), expected {mine} ({_words(mine)}) as "
            f"in {first.path} ({first.program}): the files contradict each other",
            path=other.path,
        )


_BELOW_SWITCHES = ("PIX", "PXB")
#: Relative tolerance of link rates, which programs round.
_SAME_RATE = 0.02


def _words(path_class: str) -> str:
    if path_class in _BELOW_SWITCHES:
        return "below a switch"
    return "between sockets" if path_class == "SYS" else "in a socket"
