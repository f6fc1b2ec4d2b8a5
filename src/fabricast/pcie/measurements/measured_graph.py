"""Measured rates of concurrent copies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fabricast.core.errors import InputError, near_names
from fabricast.pcie.graphs.rates import Statistic
from fabricast.pcie.topology.memory import HOST, _memory_called, ends_of, is_host, is_inter_socket
from fabricast.pcie.topology.tree import PcieTree

#: Faster rates are typing errors.
FASTEST_BYTES_PER_S = 1e13
#: Role of measurements that are used for calibration.
CALIBRATION = "calibration"
#: Role of measurements that are validated, even if they are isolated copies or bidirectional pairs.
TEST = "test"
#: Roles of rows that are validated, as are rows without a role. Isolated copies and bidirectional pairs are used for
#: calibration instead, unless their role is `TEST`. The names of classes may have the prefix `test_`.
JUDGED = (TEST, "few_flows", "all_to_all", "host")
#: Roles of rows that a file excludes from calibration and validation.
UNKNOWN_ROLE = "unknown_role"
EXCLUDED_ROLES = ("impossible_over_line_rate", "circular_topology", "collapse", "partial_collapse", UNKNOWN_ROLE)


@dataclass(frozen=True)
class MeasuredGraph:
    """Concurrent copies with their measured total rate."""

    name: str  # Name of the graph
    flows: tuple[tuple[str, str], ...]  # Names of source and target of each copy; `HOST` is host memory
    total_bytes_per_s: float  # Total rate of all copies in bytes/s: the median over the repetitions
    program: str  # Name of the copy program (`fabricast.pcie.graphs.programs.PROGRAMS`)
    role: str = ""  # Role in the file: `CALIBRATION`, one of `JUDGED` or `EXCLUDED_ROLES`, or empty
    repetitions: int = 1  # Number of measurements of the rate
    spread: float = 0.0  # Half of the relative range of the repetitions
    line: int = 0  # First line of the graph in the file; 0 if unknown
    statistic: Statistic = "total"  # Rate that the program printed, see `fabricast.pcie.graphs.rates.printed_rates`
    path: str = ""  # File; empty if unknown

    @property
    def is_both_ways(self) -> bool:
        """Whether the copies are those of one pair in both directions."""
        return len(self.flows) == 2 and self.flows[0] == self.flows[1][::-1]

    @property
    def may_calibrate(self) -> bool:
        """True if the role permits to use the measurement for calibration."""
        return self.role not in (TEST, *EXCLUDED_ROLES)


#: Largest number of endpoints that a message lists.
_MOST_NAMES = 20


def flows_of(tree: PcieTree, graph: MeasuredGraph) -> list[tuple[int, int]]:
    """Return the endpoint numbers of source and target of each copy."""
    number = tree.endpoint_number
    numbers = []
    for flow in graph.flows:
        for name in flow:
            if name != HOST and _memory_called(tree, name) not in number:
                is_node = re.fullmatch("NUMA[0-9]+", name)
                missing = "; memory_nodes of the topology does not list it" if is_node else ""
                raise InputError(
                    f"'{graph.name}'{_line(graph)}: {tree.name} has no endpoint '{name}'{missing}"
                    f"{near_names(name, number)}, expected {_some(number)} or {HOST}"
                )
        source, target = ends_of(tree, flow)
        if tree.vertex(source).host_memory and tree.vertex(target).host_memory:
            raise InputError(f"'{graph.name}'{_line(graph)}: copies {source} to {target}, expected a GPU at one end")
        numbers.append((number[source], number[target]))
    return numbers


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= _MOST_NAMES else f"{', '.join(listed[:_MOST_NAMES])}, ..."


def _line(graph: MeasuredGraph) -> str:
    return f" (line {graph.line})" if graph.line else ""


BETWEEN_ROOTS = "between root complexes"


HOST_COPIES = "host copies"


#: Class of graphs with copies over NVLink, NVSwitch or xGMI.
DIRECT_LINKS = "direct links"


#: Class of graphs that are limited by the copy engine of a GPU.
MANY_COPIES = "many copies of a GPU"


#: Class of graphs in which few copies use each GPU.
FEW_COPIES = "few copies"


#: Largest number of copies of one GPU that links limit; with more copies, its engine is the bottleneck.
MOST_OF_FEW = 2


def graph_class(tree: PcieTree, graph: MeasuredGraph) -> str:
    """Return the class of a graph for error statistics.

    Forecast errors of different classes have different causes.
    """
    if is_host(tree, graph.flows):
        return HOST_COPIES
    if any(tree.peer_link(*flow) is not None for flow in graph.flows):
        return DIRECT_LINKS
    ends = [end for flow in graph.flows for end in {f"{flow[0]}>", f">{flow[1]}"}]
    if len(graph.flows) > 1 and max(ends.count(end) for end in set(ends)) > MOST_OF_FEW:
        return MANY_COPIES
    if any(is_inter_socket(tree, flow) for flow in graph.flows):
        return BETWEEN_ROOTS
    return FEW_COPIES
