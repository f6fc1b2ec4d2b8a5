"""Public measurements of collective operations on NVLink nodes and clusters: what machines of the same class reach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.clusters.cluster import EFA, ETHERNET, SLINGSHOT, VERBS
from fabricast.core.errors import InputError
from fabricast.core.number_text import size_text
from fabricast.core.resources import published
from fabricast.nccl.costs import Operation, bus_factor

_FAMILY = re.compile(
    r"(gb300|gb200|gh200|b300|b200|b100|h200|h100|h800|h20|a100|a800|v100|p100|a40|a30|l40s|l40|mi\d{3}[ax]?)"
)
#: Families with the same links, whose measurements stand for each other.
_SISTERS = (("H100", "H200"), ("MI300X", "MI325X"), ("MI350X", "MI355X"))
#: Beginning of the state of runs that are no reference.
_FAULTY = ("unhealthy", "asked as slow", "NUMA balancing on")
#: Factor beyond the measured sizes up to which the nearest size stands for another.
_BEYOND = 1.5
#: Ratio of two measured sizes above which nothing is known about the sizes between them.
_WIDEST_GAP = 64
#: Error up to which a forecast counts as good.
_BAND = 0.15
#: Distance of classes, in doublings, between two nodes and another number.
_OTHER_TREES = 0.5
#: Distance of classes, in doublings, between one node and several.
_OTHER_KIND = 3.0
#: Distance of a class without any of the sizes.
_WITHOUT_SIZES = 4.0
#: Ratio of network rates below which they count as equal, and number of machines below which sisters are added.
_SAME_NETWORK, _FEW = 1.5, 3
#: Number of machines from which their median is a forecast.
_SEVERAL = 2
#: Kinds of networks with the words that name them.
NETWORKS = {
    SLINGSHOT: ("slingshot", "ofi", "cxi"),
    EFA: ("efa", "aws libfabric"),
    VERBS: ("infiniband", "roce", "mlx5", "ndr", "hdr", "net/ib", "rdma plugin"),
    ETHERNET: ("ethernet", "tcp", "socket"),
}
#: Bands of sizes in bytes in which the median of a class of nodes is nearer than the model.
MEDIAN_BANDS = {
    "4 to 32 MiB": (2.0**22, 2.0**26),
    "64 to 256 MiB": (2.0**26, 2.0**29),
    "from 512 MiB": (2.0**29, np.inf),
}
#: Bands of sizes in bytes of errors.
BANDS = {"up to 32 KiB": (0.0, 32768.0), "64 to 512 KiB": (65536.0, 524288.0), "from 1 MiB": (2.0**20, np.inf)}


def gpu_family(name: str) -> str:
    """Return the family of a product name whose machines are compared; the name itself if it is unknown.

    >>> gpu_family("NVIDIA H100 80GB HBM3"), gpu_family("A100-PCIE-40GB"), gpu_family("AMD Instinct MI300X")
    ('H100', 'A100 PCIe', 'MI300X')
    """
    words = name.lower()
    match = _FAMILY.search(words)
    if match is None:
        return name
    form = " PCIe" if "pcie" in words else " NVL" if re.search(r"\bnvl\b", words) else ""
    return match[1].upper() + form


def network_of(text: str) -> str:
    """Return the kind of network in a text; empty if it names none.

    >>> network_of("InfiniBand NDR"), network_of("RoCE v2"), network_of("EFA v3"), network_of("not said")
    ('InfiniBand or RoCE', 'InfiniBand or RoCE', 'EFA', '')
    """
    return next((name for name, words in NETWORKS.items() if any(word in text.lower() for word in words)), "")


def _number(text: str) -> float:
    """Return the first number of a text; NaN if it has none."""
    match = re.match(r"\s*(\d+(?:\.\d+)?)", str(text))
    return float(match[1]) if match else float("nan")


@cache
def _machines() -> pd.DataFrame:
    """Return the public machines with their family and the network rate of a GPU in Gbit/s."""
    table = pd.read_csv(published() / "collectives" / "cluster_machines.csv", comment="#", dtype=str)
    table["family"] = [gpu_family(name) for name in table["gpu"]]
    cards = np.array([_number(text) for text in table["nics_per_node"]])
    rates = np.array([_number(text) for text in table["nic_gbit_s"]])
    gpus = np.array([_number(text) for text in table["gpus_per_node"]])
    table["gbit_s_of_gpu"] = cards * rates / gpus
    table["network"] = [network_of(text) for text in table["fabric"]]
    table["is_faulty"] = [str(health).startswith(_FAULTY) for health in table["health"]]
    nodes = pd.read_csv(published() / "collectives" / "cluster_nodes.csv", comment="#").set_index("machine")
    # Missing where the source leaves it open.
    table["shares_process"] = table["machine"].map(nodes["process_gpus"] > 1)
    return table.set_index("machine")


@cache
def _times() -> pd.DataFrame:
    """Return the public times with the family of their machine."""
    table = pd.read_csv(published() / "collectives" / "cluster_times.csv", comment="#", keep_default_na=False)
    machines = _machines()
    for name in ("family", "is_faulty", "gbit_s_of_gpu", "network", "shares_process"):
        table[name] = table["machine"].map(machines[name])
    return table


def is_of_network(machines: Sequence[str], network: str | None, gbit_s: float | None) -> bool:
    """Return whether public machines have a kind and a rate of the network, as far as their sources state them."""
    known = _machines()
    kinds, rates = known["network"].to_dict(), known["gbit_s_of_gpu"].to_dict()
    for name in machines:
        kind, rate = kinds[name], float(rates[name])
        if network and kind and kind != network:
            return False
        if gbit_s is not None and rate == rate and abs(np.log(rate / gbit_s)) >= np.log(_SAME_NETWORK):
            return False
    return True


def words_of_machine(name: str) -> str:
    """Return a public machine with its network and cards, as far as its sources state them.

    >>> words_of_machine("gcp-a3mega").split(",")[0]
    'gcp-a3mega (Ethernet'
    """
    row = _machines().loc[name]
    cards, rate = _number(str(row["nics_per_node"])), _number(str(row["nic_gbit_s"]))
    of_cards = f"{cards:g} x {rate:g} Gbit/s" if cards == cards and rate == rate else ""
    stated = ", ".join(part for part in (str(row["network"]), of_cards) if part)
    return f"{name} ({stated or 'network not stated'})"


def has_cards(machines: Sequence[str], cards: int) -> bool:
    """Return whether public machines have a number of network cards in each node, as far as their sources state it."""
    known = _machines()["nics_per_node"].to_dict()
    return all(_number(known[name]) != _number(known[name]) or _number(known[name]) == cards for name in machines)


class SizeFit(NamedTuple):
    """Time as a function of the bytes on the bus: ``T = start + W * per_byte + sqrt(W) * per_root``."""

    start_s: float  # Time in s of small sizes
    #: Time in s per byte, and per square root of a byte.
    per_byte: float
    per_root: float

    def times_s(self, bus_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time in s at some numbers of bytes on the bus."""
        return self.start_s + bus_bytes * self.per_byte + np.sqrt(bus_bytes) * self.per_root


def _relative_fit(terms: NDArray[np.float64], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors of terms, not negative, with the least relative errors. Shapes: terms (times, terms)."""
    from scipy.optimize import nnls  # slow to import, therefore not at module level

    factors: NDArray[np.float64] = nnls(terms / time_s[:, None], np.ones_like(time_s))[0]
    return factors


def fitted(bus_bytes: NDArray[np.float64], time_s: NDArray[np.float64]) -> SizeFit:
    """Return the fit with the least relative errors, without negative terms.

    >>> size = 2.0 ** np.arange(10, 30)
    >>> fit = fitted(size, 1e-5 + size / 1e11)
    >>> round(fit.start_s * 1e6, 3), round(1e-9 / fit.per_byte, 3)
    (10.0, 100.0)
    """
    columns = np.column_stack([np.ones_like(bus_bytes), bus_bytes, np.sqrt(bus_bytes)])
    scale = columns.max(axis=0)
    found = _relative_fit(columns / scale, time_s)
    start_s, per_byte, per_root = (found / scale).tolist()
    return SizeFit(start_s, per_byte, per_root)


@dataclass(frozen=True, repr=False)
class Reference:
    """Public machines of a class.

    Parameters
    ----------
    words : str
        Class in words.
    is_neighbour : bool
        Whether the class is a neighbouring one, because no public machine is of the wanted class.
    operation : Operation
        Operation.
    nodes, ranks : int
        Number of nodes and of ranks of the class.
    table : pandas.DataFrame
        ``size_bytes``, ``machines``, ``median_us``, ``shortest_us``, ``longest_us`` by size, and ``bus_gb_per_s``,
        ``lowest_gb_per_s``, ``highest_gb_per_s``; NaN where no machine has such a size.
    machines : tuple of str
        Machines.
    sources : tuple of str
        Their sources, in the same order.
    notes : tuple of str
        Faulty runs that are left out, and rates of single algorithms.
    fit : SizeFit or None
        Interpolation over all sizes of the class.
    measured_sizes : tuple of float
        Sizes in bytes that a machine measured.
    """

    words: str
    is_neighbour: bool
    operation: Operation
    nodes: int
    ranks: int
    table: pd.DataFrame
    machines: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    fit: SizeFit | None
    measured_sizes: tuple[float, ...]

    def __post_init__(self) -> None:
        nearest = [f"no public machine is of the class asked for: {self.words} is the nearest one"]
        self.table.attrs["warnings"] = [*(nearest if self.is_neighbour else []), *self.notes]

    def __repr__(self) -> str:
        columns = ["size_bytes", "machines", "median_us", "bus_gb_per_s", "lowest_gb_per_s", "highest_gb_per_s"]
        rows = self.table[columns].to_string(index=False)
        start = "no public machine is of the class asked for; the nearest one:\n" if self.is_neighbour else ""
        return f"{start}{self.operation}, {self.words}: {', '.join(self.machines)}\n{rows}"


def reference_of(
    gpu: str,
    gpus_per_node: int,
    nodes: int,
    operation: Operation | str,
    sizes: Sequence[float],
    *,
    network: str | None = None,
    gbit_s: float | None = None,
    shares_process: bool | None = None,
    without: str = "",
) -> Reference:
    """Return the public measurements of the same class, or of the nearest one.

    With `shares_process`, only machines of which one process uses all GPUs of a node, or none does, and those whose
    source leaves it open.
    """
    operation, family = Operation.of(operation), gpu_family(gpu)
    every = _times()
    if shares_process is not None:
        every = every[every["shares_process"].isna() | (every["shares_process"] == shares_process)]
    every = every[(every["operation"] == str(operation)) & (every["machine"] != without)]
    sisters: tuple[str, ...] = next((group for group in _SISTERS if family in group), (family,))
    is_class = (every["ranks"] == every["nodes"] * gpus_per_node) & (every["nodes"] == nodes)
    if nodes > 1:
        # Machines with the same kind of network are preferred, and among them those with its rate.
        alike = [every["network"] == network] if network is not None else []
        alike += [abs(np.log(every["gbit_s_of_gpu"] / gbit_s)) < np.log(_SAME_NETWORK)] if gbit_s is not None else []
        for near in alike:
            is_class &= near if (is_class & near & every["family"].isin(sisters)).any() else True
    of_family = every[is_class & (every["family"] == family)]
    if _healthy(of_family)["machine"].nunique() < _FEW:
        of_family = every[is_class & every["family"].isin(sisters)]
    if _healthy(of_family)["machine"].nunique():
        words = _class_words("/".join(sorted(set(_healthy(of_family)["family"]))), gpus_per_node, nodes)
        is_other = family not in set(_healthy(of_family)["family"])
        return _reference(of_family, words, is_other, operation, (nodes, gpus_per_node * nodes), sizes)
    known = every[every["family"].isin(sisters) & ~every["is_faulty"]]
    if known.empty:
        families = ", ".join(sorted(set(every["family"])))
        raise InputError(f"is {gpu!r}, of which no {operation} was published; there are {families}", argument="gpu")
    classes = known[["nodes", "ranks"]].drop_duplicates()
    distance = abs(np.log2(classes["nodes"] / nodes)) + 2 * abs(
        np.log2(classes["ranks"] / classes["nodes"] / gpus_per_node)
    )
    if operation is Operation.ALL_REDUCE:
        # On two nodes, trees send half as many bytes over the network: their rates say nothing about more nodes.
        distance += _OTHER_TREES * ((classes["nodes"] == 2) != (nodes == 2))
    # One node says nothing about a network.
    distance += _OTHER_KIND * ((classes["nodes"] == 1) != (nodes == 1))
    # A class with few of the sizes is no answer.
    distance += [_WITHOUT_SIZES * (1 - _share_of_sizes(known, one, sizes)) for one in classes.itertuples(index=False)]
    nearest = classes.loc[distance.idxmin()]
    ranks, count = int(nearest["ranks"]), int(nearest["nodes"])
    of_class, words = _of_class(known, count, ranks)
    found = _reference(of_class, words, True, operation, (count, ranks), sizes)
    beyond = classes[((classes["nodes"] > nodes) != (count > nodes)) & (classes["nodes"] != nodes)]
    beyond = beyond[beyond["ranks"] == beyond["nodes"] * gpus_per_node]
    if nodes == 1 or count == nodes or beyond.empty:
        return found
    other = beyond.loc[distance[beyond.index].idxmin()]
    return replace(found, notes=(*found.notes, *_rate_of_other_class(known, other, operation, sizes)))


def _of_class(known: pd.DataFrame, nodes: int, ranks: int) -> tuple[pd.DataFrame, str]:
    """Return the rows of a class, and its words."""
    rows = known[(known["nodes"] == nodes) & (known["ranks"] == ranks)]
    return rows, _class_words("/".join(sorted(set(rows["family"]))), ranks // nodes, nodes)


def _rate_of_other_class(
    known: pd.DataFrame, other: Any, operation: Operation, sizes: Sequence[float]
) -> Iterator[str]:
    """Yield the rate of a class of clusters on the other side of the number of nodes that is asked for."""
    rows, words = _of_class(known, int(other["nodes"]), int(other["ranks"]))
    wanted = np.sort(np.array(sizes, dtype=float))
    times = _at_sizes(rows, wanted)
    if np.isfinite(times).any():
        last = int(np.flatnonzero(np.isfinite(times))[-1])
        rate = bus_factor(operation, int(other["ranks"])) * wanted[last] / times[last] / 1e3
        yield f"the class on the other side, {words}, reaches {rate:.3g} GB/s at {size_text(float(wanted[last]))}"


def _share_of_sizes(known: pd.DataFrame, one: Any, sizes: Sequence[float]) -> float:
    """Return the share of sizes at which a class was measured, or near them."""
    of_class, _ = _of_class(known, one.nodes, one.ranks)
    return float(np.isfinite(_at_sizes(of_class, np.array(sizes, dtype=float))).mean())


def _class_words(family: str, gpus: int, nodes: int) -> str:
    return f"{gpus} x {family}" if nodes == 1 else f"{nodes} nodes of {gpus} x {family}"


def _healthy(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[~rows["is_faulty"]]


def _reference(
    rows: pd.DataFrame,
    words: str,
    is_neighbour: bool,
    operation: Operation,
    count: tuple[int, int],
    sizes: Iterable[float],
) -> Reference:
    """Return the reference of some rows; `count` is the number of nodes and of ranks."""
    nodes, ranks = count
    wanted = np.array([float(size) for size in sizes])
    healthy = _healthy(rows)
    groups = {
        (str(one), str(other)): part for (one, other), part in healthy.groupby(["machine", "setting"], sort=False)
    }
    # Settings of one machine count once: its shortest time, as users tune for it.
    names = [machine for machine, _ in groups]
    unique = tuple(dict.fromkeys(names))
    table = reference_table(list(groups.values()), wanted, operation, ranks, names)
    faulty = sorted(set(rows[rows["is_faulty"]]["machine"]))
    notes = [f"left out, since their authors call them slow or faulty: {', '.join(faulty)}"] if faulty else []
    for (machine, setting), part in groups.items():
        most = bus_factor(operation, ranks) * (part["size_bytes"] / part["median_us"]).max() / 1e3
        notes += [f"{setting} on {machine}: {most:.3g} GB/s at most"] if setting else []
    bus_bytes = bus_factor(operation, ranks) * healthy["size_bytes"].to_numpy(dtype=float)
    fit = fitted(bus_bytes, healthy["median_us"].to_numpy() * 1e-6) if len(healthy) > 3 else None
    sources = tuple(str(_machines().loc[name, "sources"]) for name in unique)
    measured = tuple(sorted({float(size) for size in healthy["size_bytes"]}))
    return Reference(words, is_neighbour, operation, nodes, ranks, table, unique, sources, tuple(notes), fit, measured)


def reference_table(
    parts: Sequence[pd.DataFrame],
    sizes: Sequence[float] | NDArray[np.float64],
    operation: Operation,
    ranks: int,
    names: Sequence[object] | None = None,
) -> pd.DataFrame:
    """Return median and range of the times of machines, each in the shortest of its parts, as in `Reference`."""
    wanted = np.asarray(sizes, dtype=float)
    times = np.array([_at_sizes(part, wanted) for part in parts])
    labels = list(range(len(parts))) if names is None else list(names)
    of_machine = np.array([np.fmin.reduce(times[[name == one for name in labels]]) for one in dict.fromkeys(labels)])
    known = np.isfinite(of_machine)
    count = known.sum(axis=0)
    middle, low, high = (np.full(wanted.size, np.nan) for _ in range(3))
    for place in np.flatnonzero(count):
        column = of_machine[known[:, place], place]
        middle[place], low[place], high[place] = np.median(column), column.min(), column.max()
    bus = bus_factor(operation, ranks) * wanted * 1e-3
    return pd.DataFrame(
        {
            "size_bytes": wanted,
            "machines": count,
            "median_us": middle,
            "shortest_us": low,
            "longest_us": high,
            "bus_gb_per_s": bus / middle,
            "lowest_gb_per_s": bus / high,
            "highest_gb_per_s": bus / low,
        }
    )


def _at_sizes(rows: pd.DataFrame, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times of a machine in us at some sizes, between measured ones; NaN beyond them and in wide gaps.

    Little above the largest size, times grow with the size; little below the smallest one, they are its time.
    """
    of_size = rows.groupby("size_bytes")["median_us"].median()
    known, times = of_size.index.to_numpy(dtype=float), of_size.to_numpy(dtype=float)
    found = np.exp(np.interp(np.log(sizes), np.log(known), np.log(times)))
    found *= np.maximum(sizes / known[-1], 1.0)
    outside = (sizes < known[0] / _BEYOND) | (sizes > known[-1] * _BEYOND)
    above = np.clip(np.searchsorted(known, sizes), 1, max(known.size - 1, 1))
    if known.size > 1:
        is_near = (sizes <= known[above - 1] * _BEYOND) | (sizes >= known[above] / _BEYOND)
        outside |= (known[above] / known[above - 1] > _WIDEST_GAP) & ~is_near
    return np.where(outside, np.nan, found)


def _left_out() -> Iterator[tuple[str, Operation, Reference, pd.DataFrame]]:
    """Yield machine, operation, class without this machine, and the rows of this machine."""
    healthy = _healthy(_times())
    keys = ["machine", "operation", "nodes", "ranks"]
    rates, shares = _machines()["gbit_s_of_gpu"].to_dict(), _machines()["shares_process"].to_dict()
    for key, rows in healthy[healthy["setting"] == ""].groupby(keys, sort=True):
        machine, operation, nodes, ranks = str(key[0]), Operation(str(key[1])), int(str(key[2])), int(str(key[3]))
        rate = float(rates[machine])
        try:
            other = reference_of(
                str(_machines().loc[machine, "gpu"]),
                ranks // nodes,
                nodes,
                operation,
                rows["size_bytes"].astype(float).tolist(),
                network=str(rows["network"].iloc[0]) or None,
                gbit_s=None if np.isnan(rate) else rate,
                shares_process=None if pd.isna(shares[machine]) else bool(shares[machine]),
                without=machine,
            )
        except InputError:
            continue
        if not other.is_neighbour:
            yield machine, operation, other, rows


def left_out_errors() -> pd.DataFrame:
    """Return the relative error of the interpolation on machines that are left out, by class and band of sizes.

    With two rows of the left-out machine (the smallest size and the largest), start and rates are scaled to them.
    """
    found: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for machine, operation, other, rows in _left_out():
        sizes, nodes = rows["size_bytes"].to_numpy(dtype=float), other.nodes
        measured_s = rows["median_us"].to_numpy() * 1e-6
        if other.fit is None:
            continue
        bus = bus_factor(operation, other.ranks) * sizes
        forecast_s = other.table["median_us"].to_numpy() * 1e-6
        tuned_s = scaled(other.fit, bus, measured_s).times_s(bus)
        for band, (low, high) in BANDS.items():
            # Beyond the sizes of the other machines is no interpolation.
            for place in np.flatnonzero((sizes >= low) & (sizes <= high) & (other.table["machines"] > 0)):
                errors = (abs(times[place] / measured_s[place] - 1) for times in (forecast_s, tuned_s))
                label = "one node" if nodes == 1 else str(rows["network"].iloc[0]) or "network not said"
                found.setdefault((label, band), []).append((machine, *errors))
    return pd.DataFrame(
        {
            "network": nodes,
            "band": band,
            "machines": len({machine for machine, *_ in rows}),
            "rows": len(rows),
            "median": np.median([error for _, error, _ in rows]),
            "third_quartile": np.percentile([error for _, error, _ in rows], 75),
            "within_band": np.mean([error <= _BAND for _, error, _ in rows]),
            "worst": max(error for _, error, _ in rows),
            "median_with_two_rows": np.median([error for *_, error in rows]),
        }
        for (nodes, band), rows in found.items()
    ).round(4)


def class_medians_s(public: Reference) -> NDArray[np.float64]:
    """Return the median time of a class of nodes at each size in s; NaN where it is no better than the model.

    For all_reduce from 4 MiB on and with several machines it is: single machines, small sizes and networks differ too
    much, and other operations have too few machines.
    """
    times: NDArray[np.float64] = public.table["median_us"].to_numpy() * 1e-6
    is_known = (public.table["machines"] >= _SEVERAL) & (public.table["size_bytes"] >= MEDIAN_BANDS["4 to 32 MiB"][0])
    is_class = public.nodes == 1 and not public.is_neighbour and public.operation is Operation.ALL_REDUCE
    return np.where(is_known & is_class, times, np.nan)


def class_errors() -> pd.DataFrame:
    """Return the relative error of the median of a class of nodes by band of sizes, each of its machines left out."""
    found: list[tuple[str, float, float]] = []
    for machine, operation, other, rows in _left_out():
        if operation is Operation.ALL_REDUCE:
            errors = abs(class_medians_s(other) * 1e6 / rows["median_us"].to_numpy() - 1)
            sizes = rows["size_bytes"].to_numpy(dtype=float)
            known = np.isfinite(errors)
            found += [(machine, *one) for one in zip(sizes[known].tolist(), errors[known].tolist(), strict=True)]
    bands = {
        band: [(machine, error) for machine, size, error in found if low <= size < high]
        for band, (low, high) in MEDIAN_BANDS.items()
    }
    return pd.DataFrame(
        {
            "band": band,
            "machines": len({machine for machine, _ in of_band}),
            "rows": len(of_band),
            "median": np.median([error for _, error in of_band]),
            "worst": max(error for _, error in of_band),
        }
        for band, of_band in bands.items()
    ).round(4)


def scaled(fit: SizeFit, bus_bytes: NDArray[np.float64], time_s: NDArray[np.float64]) -> SizeFit:
    """Return a fit whose start meets the smallest measured size, and whose rates meet the largest one."""
    small, large = int(np.argmin(bus_bytes)), int(np.argmax(bus_bytes))
    if small == large:
        return fit
    start_s, rest_s = fit.start_s, fit.times_s(bus_bytes) - fit.start_s
    # Two equations in the factors of the start and of both rates.
    matrix = np.array([[start_s, rest_s[small]], [start_s, rest_s[large]]])
    of_start, of_rates = _relative_fit(matrix, time_s[[small, large]])
    return SizeFit(start_s * of_start, fit.per_byte * of_rates, fit.per_root * of_rates)
