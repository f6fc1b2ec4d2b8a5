"""Copies that ran together, with the rate that they reached."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fabricast.core.errors import InputError, near_names
from fabricast.pcie.topology.memory import HOST, _memory_called, ends_of, is_between_roots, is_host
from fabricast.pcie.topology.tree import PcieTree

__all__ = [
    "BETWEEN_ROOTS",
    "CALIBRATION",
    "DIRECT_LINKS",
    "HOST_COPIES",
    "JUDGED",
    "MANY_COPIES",
    "SET_ASIDE",
    "TEST",
    "MeasuredGraph",
    "flows_of",
    "graph_class",
]

#: Role of measurements from which parameters may be taken.
CALIBRATION = "calibration"
#: Role of measurements that are judged, even where they are of a copy alone or of an opposite pair.
TEST = "test"
#: Roles of rows that are judged, as those without a role, but for copies alone and opposite pairs, which give
#: parameters unless they are of the first; also with `test_` before the name of a class.
JUDGED = (TEST, "few_flows", "all_to_all", "host")
#: Roles of rows that a file lists and does not want judged.
SET_ASIDE = ("impossible_over_line_rate", "circular_topology", "collapse", "partial_collapse")


@dataclass(frozen=True)
class MeasuredGraph:
    """Copies that ran together, and the rate that they reached.

    Parameters
    ----------
    name : str
        Of the graph.
    flows : tuple of (str, str)
        Names of source and target; `HOST` is host memory.
    total_bytes_per_s : float
        Rate of all flows together: the median over repetitions.
    program : str
        Name of the program that copied (`fabricast.pcie.graphs.programs.PROGRAMS`).
    role : str
        ``calibration`` if parameters may be taken from it, what else the file says, or nothing.
    repetitions : int
        Measurements behind the rate.
    spread : float
        Half of their relative range.
    line : int
        Line of the file where it stands first.
    rates_summed : bool
        Whether the rate is the sum of what each copy reached until its own end, not all bytes until the last end.
    """

    name: str
    flows: tuple[tuple[str, str], ...]
    total_bytes_per_s: float
    program: str
    role: str = ""
    repetitions: int = 1
    spread: float = 0.0
    line: int = 0
    rates_summed: bool = False

    @property
    def may_calibrate(self) -> bool:
        """Whether parameters may be taken from it, if it is of copies that tell any."""
        return self.role not in (TEST, *SET_ASIDE)


#: Endpoints that a message names.
_MOST_NAMES = 20


def flows_of(tree: PcieTree, graph: MeasuredGraph) -> list[tuple[int, int]]:
    """Return the endpoint numbers of a graph's flows.

    Raises
    ------
    InputError
        If the tree has no endpoint of a name, or a copy goes from memory to memory.
    """
    number = tree.endpoint_number
    found = []
    for flow in graph.flows:
        for name in flow:
            if name != HOST and _memory_called(tree, name) not in number:
                is_node = re.fullmatch("NUMA[0-9]+", name)
                missing = "; its memory_nodes would say which root complex it is next to" if is_node else ""
                raise InputError(f"'{graph.name}'{_line(graph)}: {tree.name} has no endpoint '{name}'{missing}"
                                 f"{near_names(name, number)}, expected {_some(number)} or {HOST}")  # fmt: skip
        source, target = ends_of(tree, flow)
        if tree.vertex(source).host_memory and tree.vertex(target).host_memory:
            raise InputError(f"'{graph.name}'{_line(graph)}: copies {source} to {target}, expected a GPU at one "
                             "end")  # fmt: skip
        found.append((number[source], number[target]))
    return found


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known) if len(known) <= _MOST_NAMES else f"{', '.join(known[:_MOST_NAMES])}, ..."


def _line(graph: MeasuredGraph) -> str:
    return f" (line {graph.line})" if graph.line else ""


BETWEEN_ROOTS = "between root complexes"


HOST_COPIES = "host copies"


#: Class of graphs with copies over NVLink, NVSwitch or xGMI.
DIRECT_LINKS = "direct links"


#: Class of graphs in which the engine of a GPU decides.
MANY_COPIES = "many copies of a GPU"


#: Copies of one GPU from which on its engine, and not the links, decides.
_MANY = 3


def graph_class(tree: PcieTree, graph: MeasuredGraph) -> str:
    """Return what kind of graph it is: its errors have another cause."""
    if is_host(tree, graph.flows):
        return HOST_COPIES
    if any(tree.peer_link(*flow) is not None for flow in graph.flows):
        return DIRECT_LINKS
    ends = [end for flow in graph.flows for end in {f"{flow[0]}>", f">{flow[1]}"}]
    if len(graph.flows) > 1 and max(ends.count(end) for end in set(ends)) >= _MANY:
        return MANY_COPIES
    if any(is_between_roots(tree, flow) for flow in graph.flows):
        return BETWEEN_ROOTS
    return "few copies"
