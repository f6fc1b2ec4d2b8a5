"""Topologies, measurements and reference calculations shared by the tests of measured copies."""

from hypothesis import strategies as st

from fabricast.core.resources import published
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.parts import MemoryNode, Vertex
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree

TREE = regular_tree("flat4x2", (2, 4))


EVEN, DUPLEX = Rates(50e9, 50e9), Rates(56e9, 54e9)


PUBLIC = published() / "pcie_concurrent_copies.csv"


def texts(report, code):
    """Return the texts of the warnings with a code."""
    return [warning.text for warning in report.warnings if warning.code == code]


def limits(report):
    """Return the measured limits by name."""
    known = report.calibration.estimates
    return {limit: estimate.bytes_per_s for limit, estimate in known.items() if not estimate.is_lower_bound}


def lower_bounds(report):
    """Return the lower bounds of limits by name."""
    known = report.calibration.estimates
    return {limit: estimate.bytes_per_s for limit, estimate in known.items() if estimate.is_lower_bound}


def pairs_between(endpoints):
    end = st.integers(0, endpoints - 1)
    return st.lists(st.tuples(end, end).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=7, unique=True)


pairs = pairs_between(8)


def both_ways(pairs):
    return tuple(flow for source, target in pairs for flow in ((source, target), (target, source)))


def _measured(*rows):
    """Return graphs of independent copies from (communications, GB/s, role)."""
    return [
        MeasuredGraph(comms, tuple(tuple(flow.split(">")) for flow in comms.split()), rate * 1e9, "independent", role)
        for comms, rate, role in rows
    ]


def two_roots(first, second, *, switches=False, widths=None):
    """Build a tree of two root complexes with GPUs and one NUMA node each.

    GPUs are attached directly, or below one switch per root complex.
    """
    vertices = [
        Vertex("SYS", "system", None),
        Vertex("RC0", "root_complex", "SYS"),
        Vertex("RC1", "root_complex", "SYS"),
    ]
    for root, gpus in (("RC0", first), ("RC1", second)):
        above = f"S{root[-1]}" if switches else root
        vertices += [Vertex(above, "switch", root)] if switches else []
        vertices += [Vertex(gpu, "endpoint", above, capacity=(widths or {}).get(gpu, 1.0)) for gpu in gpus]
    nodes = (MemoryNode("NUMA0", "RC0"), MemoryNode("NUMA1", "RC1"))
    return PcieTree("two_roots", tuple(vertices), memory_nodes=nodes, link_bytes_per_s=31507692307.7)


def measured(name, flows, gb_per_s, role=""):
    return MeasuredGraph(name, tuple(flows), gb_per_s * 1e9, "independent", role)
