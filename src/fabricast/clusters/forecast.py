"""Forecast of copies in a cluster: times, the layer that limits them, and what other choices would gain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.clusters.errors import error_text
from fabricast.clusters.latency import Latency, message_latency
from fabricast.clusters.machine import ClusterMachine
from fabricast.clusters.routes import LAYERS, ClusterLinks, Layer, cluster_links
from fabricast.clusters.times import CopyRun, busiest_link, is_simulated, run_copies
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.networks.launcher_files import write_rank_files
from fabricast.networks.mapping import search_hosts
from fabricast.networks.patterns import compact_block, slots_of_blocks
from fabricast.pcie.machines.engine_model import ASSUMPTIONS
from fabricast.pcie.topology.tree import PATH_CLASSES

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
#: Copies up to which a table has one row for each.
_MOST_COPIES = 5_000_000
_LARGEST_BYTES = 1e15
#: Place of the nearest path class over a processor.
_FAR = PATH_CLASSES.index("PHB")
_ROUTINGS = ("static", "adaptive")
#: Swaps of the search for another order of hosts.
_PROPOSALS = 100_000


@dataclass(frozen=True, repr=False)
class ClusterCopies:
    """Times of copies in a cluster that start together.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per copy: source, target, size_bytes, elapsed_s, layer and bottleneck. Patterns that are too large for a
        simulation have no times of single copies.
    layers : pandas.DataFrame
        One row per layer: share of the copies that it limits (unknown without a simulation), time_without_s of all
        copies if it limited nothing, and gain, the ratio of both times.
    choices : pandas.DataFrame
        One row per other choice that was tried: time_s of all copies and gain.
    time_s : float
        Time of all copies in s; a lower bound if they were not simulated.
    is_simulated : bool
        Whether the times are those of a simulation, not of the busiest link.
    bottleneck : str
        Link that limits the last copy, or the busiest link.
    layer : str
        Layer of that link: node, card, network, process, or latency.
    latency : Latency
        Time of a small message and its origin.
    cluster : ClusterMachine
        Cluster.
    warnings : tuple of CodedWarning
        Assumptions.
    pattern : str
        Pattern in words; empty for listed copies.
    grid : tuple of int or None
        Process grid of a halo exchange.
    """

    table: pd.DataFrame
    layers: pd.DataFrame
    choices: pd.DataFrame
    time_s: float
    is_simulated: bool
    bottleneck: str
    layer: str
    latency: Latency
    cluster: ClusterMachine
    warnings: tuple[CodedWarning, ...]
    pattern: str = ""
    grid: tuple[int, ...] | None = None

    def write_blocks(self, stem: str | Path) -> list[Path]:
        """Write the files of launchers with a block of the grid on each node.

        ``stem.rankfile`` is for Open MPI, ``stem.hosts`` has one host for each rank (``srun -m arbitrary``).

        Raises
        ------
        InputError
            If the copies are no halo exchange, or no block of the grid has the GPUs of a node.
        """
        block = _block(self.cluster, self.grid)
        if self.grid is None or block is None:
            raise InputError("is for halo exchanges whose grid has blocks with the GPUs of a node", argument="stem")
        gpus = math.prod(block)
        owner = slots_of_blocks(self.grid, block) // gpus
        return write_rank_files(owner, gpus, self.cluster.host_names, Path(stem))

    def __repr__(self) -> str:
        what = self.pattern or ("1 copy" if len(self.table) == 1 else f"{len(self.table)} copies")
        return f"{what}: {self.time_s * 1e3:.4g} ms, limited by {self.bottleneck}\n{self.layers.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return str(self.table._repr_html_())  # type: ignore[operator]  # hidden from stubs


def _block(cluster: ClusterMachine, grid: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the block of a process grid that each node can hold; None without a grid, or if none fits all nodes."""
    counts = {len(kind.gpus) for kind in cluster.kinds}
    return None if grid is None or len(counts) > 1 else compact_block(grid, counts.pop())


def forecast_copies(
    cluster: ClusterMachine,
    source: _Ints,
    target: _Ints,
    size_bytes: _Floats,
    *,
    routing: str = "static",
    grid: tuple[int, ...] | None = None,
    alternatives: bool = True,
) -> ClusterCopies:
    """Return the times of copies between ranks that start together; `grid` is the process grid of a halo exchange.

    Shapes: source, target, size_bytes (copies,).
    """
    if routing not in _ROUTINGS:
        raise unknown_name("routing", routing, _ROUTINGS)
    _check(cluster, source, target, size_bytes)
    links = cluster_links(cluster, source, target, size_bytes, routing=routing)
    latency = message_latency(cluster, links.switches)
    start_s = np.where(links.crosses, latency.time_s, 0.0)
    table = pd.DataFrame(
        {
            "source": cluster.names_of(source.tolist()),
            "target": cluster.names_of(target.tolist()),
            "size_bytes": size_bytes,
        }
    )
    simulated = is_simulated(links)
    if simulated:
        run = run_copies(links, size_bytes)
        table = table.join(_times_of_copies(run, links, start_s, f"latency ({latency.source})"))
        last = table.iloc[int(table["elapsed_s"].argmax())]
        transfer_s, time_s = float(run.end_s.max()), float(last["elapsed_s"])
        bottleneck, limiting = str(last["bottleneck"]), str(last["layer"])
    else:
        transfer_s, busiest = busiest_link(links, size_bytes)
        time_s = max(transfer_s, float(start_s.max()))
        bottleneck, limiting = links.names[busiest], LAYERS[Layer(int(links.layer[busiest]))]
    layers = _layers(links, size_bytes, start_s, (time_s, transfer_s), table.get("layer"))
    choices = pd.DataFrame(columns=["choice", "time_s", "gain"])
    if alternatives:
        tried = _other_choices(cluster, source, target, size_bytes, routing, grid)
        choices = _compared(cluster, tried, size_bytes, time_s, simulated=simulated)
    return ClusterCopies(
        table,
        layers,
        choices,
        time_s,
        simulated,
        bottleneck,
        limiting,
        latency,
        cluster,
        tuple(_notes(cluster, links, latency, size_bytes, simulated=simulated)),
        grid=grid,
    )


def _check(cluster: ClusterMachine, source: _Ints, target: _Ints, size_bytes: _Floats) -> None:
    if not source.size:
        raise InputError("is empty, expected one or more copies", argument="copies")
    if source.size > _MOST_COPIES:
        raise InputError(f"has {source.size:,} copies, expected at most {_MOST_COPIES:,}", argument="copies")
    most = int(max(source.max(), target.max())) + 1
    if most > cluster.gpus:
        raise InputError(f"has {most:,} ranks, expected at most the {cluster.gpus:,} GPUs", argument="pattern")
    if (source == target).any():
        raise InputError("contains a copy of a GPU to itself, expected two different ones", argument="copies")
    if not ((size_bytes >= 1) & (size_bytes <= _LARGEST_BYTES)).all():
        raise InputError(f"is no number of bytes from 1 to {_LARGEST_BYTES:g}", argument="size")


def _times_of_copies(run: CopyRun, links: ClusterLinks, start_s: _Floats, late: str) -> pd.DataFrame:
    """Return time, layer and bottleneck of each copy; `late` is the bottleneck of those that the latency limits."""
    is_late = start_s > run.end_s
    layers = np.array([LAYERS[layer] for layer in Layer])[run.limited_s.argmax(axis=1)]
    names = [late if waits else links.names[link] for waits, link in zip(is_late, run.bottleneck, strict=True)]
    return pd.DataFrame(
        {"elapsed_s": run.end_s + start_s, "layer": np.where(is_late, "latency", layers), "bottleneck": names}
    )


def _time_s(links: ClusterLinks, size_bytes: _Floats, start_s: _Floats, simulated: bool) -> float:
    """Return the time of all copies in s."""
    if simulated:
        return float((run_copies(links, size_bytes).end_s + start_s).max())
    return max(busiest_link(links, size_bytes)[0], float(start_s.max()))


def _layers(
    links: ClusterLinks, size_bytes: _Floats, start_s: _Floats, times_s: tuple[float, float], limiting: pd.Series | None
) -> pd.DataFrame:
    """Return the share of copies that each layer limits, and the time of all copies if it limited nothing.

    `times_s` are those of all copies with and without the latency.
    Without a simulation, no layer of single copies is known: `limiting` is None, and the share is unknown.
    """
    simulated, (time_s, transfer_s) = limiting is not None, times_s

    def share(word: str) -> float:
        return math.nan if limiting is None else float((limiting == word).mean())

    rows = []
    for layer, word in LAYERS.items():
        if (links.layer == layer).any():
            without_s = _time_s(links.without(layer), size_bytes, start_s, simulated)
            rows.append((word, share(word), without_s, time_s / max(without_s, 1e-12)))
    rows.append(("latency", share("latency"), transfer_s, time_s / transfer_s))
    return pd.DataFrame(rows, columns=["layer", "share_of_copies", "time_without_s", "gain"])


def _other_choices(
    cluster: ClusterMachine,
    source: _Ints,
    target: _Ints,
    size_bytes: _Floats,
    routing: str,
    grid: tuple[int, ...] | None,
) -> Iterator[tuple[str, ClusterLinks]]:
    """Yield the links with other cards, ranks in blocks, other routes, and another order of hosts."""
    if any(kind.spread_cards != kind.card_of for kind in cluster.kinds if kind.cards):
        yield (
            "GPUs use all cards in turn, whatever their distance",
            cluster_links(cluster, source, target, size_bytes, routing=routing, spread=True),
        )
    block = _block(cluster, grid)
    if grid is not None and block is not None:
        slots = slots_of_blocks(grid, block)
        if (slots != np.arange(slots.size)).any():
            words = f"each node has a block of {'x'.join(map(str, block))} of the grid"
            yield words, cluster_links(cluster, slots[source], slots[target], size_bytes, routing=routing)
    if cluster.network is not None:
        other = "adaptive" if routing == "static" else "static"
        yield f"{other} routes", cluster_links(cluster, source, target, size_bytes, routing=other)
        ordered = _with_searched_hosts(cluster, source, target, size_bytes)
        if ordered is None:
            return
        for way in (routing, other):
            words = "another order of the hosts ('fabricast map')"
            words += "" if way == routing else f" and {way} routes"
            yield words, cluster_links(ordered, source, target, size_bytes, routing=way)


def _compared(
    cluster: ClusterMachine,
    tried: Iterable[tuple[str, ClusterLinks]],
    size_bytes: _Floats,
    time_s: float,
    *,
    simulated: bool,
) -> pd.DataFrame:
    """Return the times of other choices, fastest first."""
    rows = []
    for words, links in tried:
        if simulated and not is_simulated(links):
            # A bound is no time to compare with.
            continue
        start_s = np.where(links.crosses, message_latency(cluster, links.switches).time_s, 0.0)
        other_s = _time_s(links, size_bytes, start_s, simulated)
        rows.append((words, other_s, time_s / other_s))
    table = pd.DataFrame(rows, columns=["choice", "time_s", "gain"])
    return table.sort_values("time_s", kind="stable", ignore_index=True)


def _with_searched_hosts(
    cluster: ClusterMachine, source: _Ints, target: _Ints, size_bytes: _Floats
) -> ClusterMachine | None:
    """Return the cluster with the order of the same hosts in which the busiest link is the least busy."""
    assert cluster.network is not None
    one, other = cluster.place_of(source)[0], cluster.place_of(target)[0]
    apart = one != other
    if not apart.any() or len(cluster.kinds) > 1:
        return None
    keys, inverse = np.unique(one[apart] * cluster.nodes + other[apart], return_inverse=True)
    bytes_of = np.bincount(inverse, size_bytes[apart], keys.size).astype(np.float64)
    flows = (keys // cluster.nodes, keys % cluster.nodes, bytes_of)
    try:
        found = search_hosts(
            cluster.network, flows, cluster.nodes, cluster.hosts, proposals=_PROPOSALS, seed=1, progress=None
        )
    except InputError:
        # The network is too large for a search, not for the forecast.
        return None
    return replace(cluster, hosts=found.host)


def _notes(
    cluster: ClusterMachine, links: ClusterLinks, latency: Latency, size_bytes: _Floats, *, simulated: bool
) -> list[CodedWarning]:
    """Return the expected error and the assumptions of a forecast."""
    notes = [*cluster.warnings]
    used = {name for kind in cluster.kinds for name in (link.kind for link in kind.machine.tree.peer_links)}
    if used and not all(kind.machine.rates.direct_links_measured for kind in cluster.kinds):
        code = WarningCode.DIRECT_LINK_RATE_NOMINAL
        notes.append(CodedWarning(code, ASSUMPTIONS[code]))
    far = [
        kind
        for kind in cluster.kinds
        if kind.cards and any(kind.distance(*pair) >= _FAR for pair in enumerate(kind.card_of))
    ]
    if links.crosses.any() and cluster.has_gpudirect and far:
        text = "GPUs reach their card over a processor: GPUDirect is often slower there than forecast, or not in use"
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    idle = max(len(kind.cards) - len(set(kind.card_of)) for kind in cluster.kinds)
    if links.crosses.any() and idle > 0:
        text = (
            f"a GPU sends over one card, so that {idle} cards of a node are idle; processes that use several (UCX: "
            "UCX_MAX_RNDV_RAILS) can be faster"
        )
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if links.crosses.any():
        notes.append(CodedWarning(WarningCode.EXPECTED_ERROR, error_text(cluster, float(size_bytes.min()))))
        if latency.is_assumed:
            text = f"the time of a small message is assumed: {latency.source}; state it or add a file of osu_latency"
            notes.append(CodedWarning(WarningCode.LATENCY_ASSUMED, text))
    if not simulated:
        text = "the pattern is too large for a simulation: the time is that of the busiest link, a lower bound"
        notes.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, text))
    return notes
