"""Measured copies of a machine from all of its files, with GPUs as endpoints of its topology."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Facts, Quantity
from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.machine.addresses import address_warnings, endpoints_of_block
from fabricast.machine.options import MachineOptions
from fabricast.machine.staged_graphs import facts_of_staged, staged_graphs_of
from fabricast.pcie.graphs.programs import program_of
from fabricast.pcie.measurements.files import CopyRow, graphs_of_rows
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.pair_tables import pairs_of_rows
from fabricast.pcie.topology.tree import PcieTree

#: Share by which direct copies are slower than staged ones before a warning.
_SLOWER = 0.15
_NUMA_NODE = re.compile(r"NUMA\d{1,4}")
_Pair = tuple[str, str]


@dataclass
class Measurements:
    """Measured copies of a machine."""

    graphs: list[MeasuredGraph] = field(default_factory=list)  # Concurrent copies in the order of the files
    #: Rates in bytes/s of single copies, and of both copies of a pair together, through host memory.
    staged: dict[_Pair, Fact] = field(default_factory=dict)
    staged_both_ways: dict[_Pair, Fact] = field(default_factory=dict)
    #: Graphs of tables of copies with pairs that copy through host memory; `graphs` has none of them.
    staged_graphs: list[MeasuredGraph] = field(default_factory=list)
    latency: dict[_Pair, Fact] = field(default_factory=dict)  # Latency in s of copies between pairs of GPUs
    #: Rows of tables of copies, whose times calibrate model parameters.
    rows: list[CopyRow] = field(default_factory=list)
    tables: list[pd.DataFrame] = field(default_factory=list)  # Printed rates and latencies
    programs: list[str] = field(default_factory=list)  # Programs that printed the copies
    #: Warnings that files may describe other machines, and about copies that are slower than staged ones.
    warnings: list[CodedWarning] = field(default_factory=list)


def measurements_of(tree: PcieTree, facts: Facts, options: MachineOptions) -> Measurements:
    """Return the measured copies in all files."""
    found = Measurements()
    program = program_of(options.program).name
    has_systems = False
    blocks = [block for block in facts.blocks_of(Content.COPIES) if block.facts]
    for block in blocks:
        rows = block.of(Quantity.COPY_ROWS, Quantity.PAIR_ROWS)
        has_systems |= bool(rows)
        for fact in rows:
            _add_rows(found, tree, fact, program, options.system)
        if not rows:
            _add_printed(found, tree, block)
    if options.system is not None and not has_systems:
        names = ", ".join(found.programs)
        text = f"is '{options.system}', but output of {names} is of one machine and names none"
        raise InputError(text if blocks else "is specified without measurements", argument="system")
    found.graphs = _with_unique_names(found.graphs)
    found.warnings = list(dict.fromkeys([*found.warnings, *_slower_than_staged(found)]))
    return found


def _add_rows(found: Measurements, tree: PcieTree, fact: Fact, program: str, system: str | None) -> None:
    """Add the graphs of a table."""
    path = fact.place.path
    if fact.quantity is Quantity.COPY_ROWS:
        graphs = graphs_of_rows(fact.value, path, program=program, system=system)
        staged = staged_graphs_of(tree, graphs)
        found.staged_graphs += [replace(graph, path=path) for graph in staged]
        for one in facts_of_staged(staged, fact):
            values = found.staged if one.quantity is Quantity.STAGED_RATE else found.staged_both_ways
            values.setdefault((one.subject[0], one.subject[1]), one)
        graphs = [graph for graph in graphs if graph not in staged]
        found.rows += fact.value
    else:
        pairs = pairs_of_rows(tree, fact.value, path, system=system)
        graphs = pairs.graphs
        for pair, latency_s in pairs.latency_s.items():
            found.latency.setdefault(pair, replace(fact, quantity=Quantity.LATENCY, value=latency_s, unit="s"))
    found.graphs += [replace(graph, path=path) for graph in graphs]


def _add_printed(found: Measurements, tree: PcieTree, block: Block) -> None:
    """Add the graphs, staged rates and latencies that a program printed."""
    path = block.place.path
    names = endpoints_of_block(tree, block)
    found.programs.append(block.program)
    found.warnings += address_warnings(tree, block.addresses)
    of_memory = 0
    for fact in block.facts:
        if fact.quantity is Quantity.RATE:
            flows = tuple((names.get(source, source), names.get(target, target)) for source, target in fact.value.flows)
            if not tree.memory_nodes and any(_NUMA_NODE.fullmatch(end) for flow in flows for end in flow):
                # The topology states no NUMA nodes: the path of the copy is unknown.
                of_memory += 1
                continue
            found.graphs.append(replace(fact.value, flows=flows, path=path))
        elif fact.quantity is Quantity.TABLE:
            found.tables.append(fact.value)
    for quantity, values in (
        (Quantity.STAGED_RATE, found.staged),
        (Quantity.STAGED_RATE_BOTH_WAYS, found.staged_both_ways),
        (Quantity.LATENCY, found.latency),
    ):
        for fact in block.of(quantity):
            source, target = (names.get(number, number) for number in fact.subject)
            if {source, target} <= set(tree.accelerator_names):
                values.setdefault((source, target), fact)
    if of_memory:
        text = f"{path}: {of_memory} copies of host memory are not compared, as the topology has no NUMA nodes"
        found.warnings.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, text))


def _with_unique_names(graphs: Sequence[MeasuredGraph]) -> list[MeasuredGraph]:
    """Return graphs of several files whose names differ."""
    counts: dict[str, int] = {}
    unique = []
    for graph in graphs:
        seen = counts[graph.name] = counts.get(graph.name, 0) + 1
        unique.append(replace(graph, name=f"{graph.name} ({seen})") if seen > 1 else graph)
    return unique


def rates_of(values: Mapping[_Pair, Fact]) -> dict[_Pair, float]:
    """Return the values of facts about pairs."""
    return {pair: float(fact.value) for pair, fact in values.items()}


def _slower_than_staged(found: Measurements) -> Iterator[CodedWarning]:
    """Yield a warning if most direct copies are slower than copies of the same pairs through host memory."""
    direct = {graph.flows[0]: graph.total_bytes_per_s for graph in found.graphs if len(graph.flows) == 1}
    staged = rates_of(found.staged)
    pairs = sorted(set(direct) & set(staged))
    slower = [pair for pair in pairs if direct[pair] < (1 - _SLOWER) * staged[pair]]
    if not slower or 2 * len(slower) < len(pairs):
        return
    one = min(slower, key=lambda pair: direct[pair] / staged[pair])
    yield CopyWarning.about(
        one,
        WarningCode.SLOWER_THAN_STAGED,
        f"direct copies of {len(slower)} of {len(pairs)} pairs are slower than their copies through host memory, for "
        f"example {'>'.join(one)} with {direct[one] / 1e9:.4g} and {staged[one] / 1e9:.4g} GB/s, usually because "
        "of the IOMMU or access control (ACS)",
    )
