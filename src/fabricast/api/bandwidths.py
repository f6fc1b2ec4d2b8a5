"""Rates that bandwidth programs printed, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from fabricast.api.machine_inputs import Files, paths_of
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.units import GIB, pcie_link_bytes_per_s
from fabricast.gpucentric.bandwidth_matrices import copy_classes
from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from
from fabricast.machine.options import MachineOptions
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.pcie.topology.tree import PcieTree
from fabricast.sources.bandwidth_matrices import BANDWIDTH_COLUMNS

#: Test of copies that a program measured one at a time.
_ISOLATED = "isolated copies"
#: Relative difference of the rates of one path class above which something is wrong with some copies.
_SAME_CLASS = 0.15
#: Number of sets of concurrent copies that are printed.
_MOST_LISTED = 12


@dataclass(frozen=True)
class Bandwidths:
    """Printed rates of bandwidth programs."""

    #: One row per rate or latency of an isolated copy: program, test, row, column, value, unit, line.
    table: pd.DataFrame
    programs: tuple[str, ...]
    graphs: tuple[MeasuredGraph, ...]  # Measured copies
    concurrent: tuple[MeasuredGraph, ...]  # Concurrent copies of programs without matrices
    tree: PcieTree | None  # Topology of the machine, if a file describes it
    problems: tuple[InputError, ...]  # Parts of files that cannot be read


def bandwidths(files: Files, *, include_display: bool = False) -> Bandwidths:
    """Return the printed rates of bandwidth programs in files, which may describe the machine, too."""
    facts = load_facts(paths_of(files), *MACHINE_CONTENTS)
    if not any(block.facts for block in facts.blocks_of(Content.COPIES)):
        damaged = next((one for block in facts.blocks_of(Content.COPIES) for one in block.problems), None)
        raise damaged or InputError(
            "contain no measured copies, expected at least one file with them", argument="files"
        )
    described = any(True for _ in facts.of(Quantity.TOPOLOGY))
    tree = machine_from(facts, MachineOptions(include_display=include_display)).tree if described else None
    tables, programs, concurrent = [], [], []
    for block in facts.blocks_of(Content.COPIES):
        rates = block.of(Quantity.RATE)
        printed = [fact.value for fact in block.of(Quantity.TABLE)]
        programs += [block.program] if block.facts else []
        tables += printed
        if not printed and rates:
            name = block.program.split()[0]
            cells = [
                (name, _ISOLATED, *fact.value.flows[0], fact.value.total_bytes_per_s, "bytes/s", fact.value.line)
                for fact in rates
                if len(fact.value.flows) == 1
            ]
            tables.append(pd.DataFrame(cells, columns=BANDWIDTH_COLUMNS))
            concurrent += [fact.value for fact in rates if len(fact.value.flows) > 1]
    empty = pd.DataFrame(columns=BANDWIDTH_COLUMNS)
    table = pd.concat(tables, ignore_index=True) if tables else empty
    graphs = tuple(fact.value for fact in facts.of(Quantity.RATE))
    return Bandwidths(table, tuple(programs), graphs, tuple(concurrent), tree, _problems(facts))


def _problems(facts: Facts) -> tuple[InputError, ...]:
    return tuple(facts.problems)


def bandwidth_lines(found: Bandwidths) -> Iterator[str]:
    """Yield the printed values by test, concurrent copies, and the rates of copies between GPUs by path class."""
    yield f"output of {' and '.join(found.programs)}"
    for (test, unit), part in found.table.groupby(["test", "unit"], sort=False):
        # Copies within the memory of one GPU use no link; rows of host matrices are no GPUs.
        is_square = set(part["row"]) == set(part["column"])
        if is_square and (part["row"] != part["column"]).any():
            part = part[part["row"] != part["column"]]
        elif is_square and len(part) > 1:
            # p2pBandwidthLatencyTest leaves the pairs without peer access out.
            yield f"{test}: no pair of GPUs, only copies within the memory of each of {len(part)} GPUs"
            continue
        scale, shown = (1e-9, "GB/s") if unit == "bytes/s" else (1e6, "us")
        low, middle, high = (part["value"].quantile([0, 0.5, 1]) * scale).tolist()
        yield f"{test}: {len(part)} values, {low:.4g} to {high:.4g}, median {middle:.4g} {shown}"
    yield from _concurrent_lines(found.concurrent)
    yield from _copy_lines(isolated_copies(found), found.tree)


def isolated_copies(found: Bandwidths) -> list[tuple[str, str, float]]:
    """Return source, target and rate in bytes/s of the isolated copies by copy engines between GPUs."""
    return [
        (*graph.flows[0], graph.total_bytes_per_s)
        for graph in found.graphs
        if len(graph.flows) == 1 and HOST not in graph.flows[0]
    ]


def _concurrent_lines(graphs: tuple[MeasuredGraph, ...]) -> Iterator[str]:
    """Yield the total rates of several copies at a time, which determine no rate of a single copy."""
    for graph in graphs[:_MOST_LISTED]:
        rate = graph.total_bytes_per_s / 1e9
        yield f"{graph.name}: {len(graph.flows)} concurrent copies, {rate:.4g} GB/s in total"
    if graphs:
        more = f"{len(graphs) - _MOST_LISTED} more; " if len(graphs) > _MOST_LISTED else ""
        yield f"{more}'fabricast validate' compares concurrent copies with their forecast"


def _copy_lines(copies: list[tuple[str, str, float]], tree: PcieTree | None) -> Iterator[str]:
    """Yield the rates of GPU-to-GPU copies by path class, and the value for predict."""

    def way(source: str, target: str) -> str | None:
        assert tree is not None
        if not {source, target} <= set(tree.endpoint_names):
            return None
        return tree.peer_link(source, target) or tree.path_class(source, target)

    def narrowest(source: str, target: str) -> float:
        assert tree is not None
        is_routed = source != target and {source, target} <= set(tree.endpoint_names)
        return float(tree.routes.capacity[tree.route(source, target)].min()) if is_routed else 1.0

    classes = copy_classes(copies, *(() if tree is None else (way, narrowest)))
    if not classes:
        yield "no single direct copies between GPUs: the file does not determine a bandwidth for the PCIe models"
        return
    for rate_class in classes:
        pairs = ", ".join(f"{source}>{target}" for source, target in rate_class.pairs[:6])
        more = ", ..." if len(rate_class.pairs) > 6 else ""
        yield (
            f"{rate_class.name}: median {rate_class.median / 1e9:.4g} GB/s "
            f"({rate_class.low / 1e9:.4g} to {rate_class.high / 1e9:.4g}), {len(rate_class.pairs)} pairs: {pairs}{more}"
        )
        if rate_class.low < rate_class.high * (1 - _SAME_CLASS):
            yield f"  the rates of {rate_class.name} differ: 'fabricast diagnose' names slow GPUs, directions and links"
    if tree is None:
        if classes[-1].median > pcie_link_bytes_per_s(6, 16):
            yield "faster than any PCIe link: these copies use direct links, so no PCIe bandwidth is determined"
        elif len(classes) == 1:
            yield (
                f"if these copies use PCIe: --bandwidth {classes[0].median / GIB:.6g}GiB/s for predict; "
                "add a description of the machine (--topology) to check their path class"
            )
        else:
            yield "the file does not contain the path class of each rate: add a description of the machine (--topology)"
        return
    over_pcie = [rate_class for rate_class in classes if rate_class.name in ("PIX", "PXB", "PHB")]
    limit = tree.link_bytes_per_s
    if not over_pcie:
        yield "all copies use direct links or cross sockets: no bandwidth for the PCIe models is determined"
    elif limit is not None and over_pcie[0].reference > limit:
        yield (
            f"{over_pcie[0].name} copies are faster than their links ({limit / 1e9:.2f} GB/s): the GPU "
            "numbers or the topology do not match this file"
        )
    else:
        yield f"for predict on {tree.name}: --bandwidth {over_pcie[0].reference / GIB:.6g}GiB/s ({over_pcie[0].name})"
