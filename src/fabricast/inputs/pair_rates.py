"""Rates of copies on public machines, as shares of the rate of the link: defaults of machines without measurements."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from typing import NamedTuple

import numpy as np

from fabricast.core.resources import published
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.gpus import gpu_model, is_known_gpu

_COLUMNS = [
    "machine",
    "host",
    "gpu",
    "gpus",
    "pcie_generation",
    "width",
    "peer_access",
    "path_class",
    "kind",
    "median",
    "lowest",
    "highest",
    "pairs",
    "nvlink_nominal",
    "program",
    "source",
    "licence",
]
ONE_WAY, BOTH_WAYS = "one_way", "both_ways"
HOST_KINDS = ("host_to_device", "device_to_host")
SWITCHED = ("PIX", "PXB")
#: Path class of pairs with a number of NVLinks.
_LINKS = re.compile(r"NV(\d{1,2})")
#: Words of the GeForce series whose staged copies are slower.
_OLD_GEFORCE = re.compile(r"\b(?:20[678]0|30[5-9]0)\b")
#: Number of machines from which the range is the 10th to the 90th percentile; below, it is lowest to highest. Of fewer
#: machines, the percentiles would contain less than three quarters of the machines that are left out.
_MANY = 20
#: Number of machines below which the range is that of a larger class.
_FEW = 3
#: Number of GPUs from which staged copies in both directions are slower.
_LARGE_HOST = 8
#: PCIe generations with public machines.
_OLDEST, _NEWEST = 3, 5


class PublicShare(NamedTuple):
    """Share of the raw rate of a link on public machines."""

    #: Median of the machines and range: 10th to 90th percentile, or lowest to highest below twenty machines.
    median: float
    lowest: float
    highest: float
    machines: int  # Number of machines

    def scaled(self, factor: float) -> PublicShare:
        """Return the share times a factor."""
        return PublicShare(self.median * factor, self.lowest * factor, self.highest * factor, self.machines)

    @property
    def words(self) -> str:
        """Origin in words."""
        return f"{self.machines} public machine{'s' if self.machines > 1 else ''}"


@cache
def pair_rows() -> tuple[CsvRow, ...]:
    """Return all public measurements of pairs."""
    return tuple(read_csv(published() / "pair_rates.csv", _COLUMNS))


def raw_bytes_per_s(row: CsvRow) -> float | None:
    """Return the rate of the PCIe link of a row; None if the source does not state it."""
    generation, width = row["pcie_generation"], row["width"]
    if not (generation.isdigit() and width.isdigit()):
        return None
    return pcie_link_bytes_per_s(int(generation), int(width))


def _share(
    kinds: Collection[str], nominal: Callable[[CsvRow], float | None], wanted: Callable[[CsvRow], bool], without: str
) -> PublicShare:
    """Return the share of some rows; each computer counts once, one that is left out not at all."""
    of_host: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in pair_rows():
        rate = nominal(row) if row["kind"] in kinds and row["host"] != without and wanted(row) else None
        if rate is not None:
            lowest, median, highest = (row.number(name) * 1e9 / rate for name in ("lowest", "median", "highest"))
            of_host[row["host"]].append((lowest, median, highest))
    if not of_host:
        return PublicShare(np.nan, np.nan, np.nan, 0)
    lows, medians, highs = np.array([np.median(values, axis=0) for values in of_host.values()]).T
    low, high = (10, 90) if medians.size >= _MANY else (0, 100)
    return PublicShare(
        float(np.median(medians)), float(np.percentile(lows, low)), float(np.percentile(highs, high)), medians.size
    )


def _nearest(generation: int | None) -> str | None:
    return None if generation is None else str(min(max(generation, _OLDEST), _NEWEST))


def _is_pcie(row: CsvRow) -> bool:
    return not row["path_class"].startswith(("NV", "xGMI"))


@cache
def pcie_share(generation: int | None, *, direction: str = ONE_WAY, without: str = "") -> PublicShare:
    """Return the share of a PCIe link that an isolated direct copy reaches, or that both copies of a pair reach.

    The median is that of the generation, the range that of all generations: few machines have each of them. Copies of
    host memory are among those of one way.
    """
    kinds = (*HOST_KINDS, "one_way_p2p") if direction == ONE_WAY else ("both_ways_p2p",)
    number = _nearest(generation)

    def of_generation(row: CsvRow) -> bool:
        return _is_pcie(row) and (number is None or row["pcie_generation"] == number)

    every = _share(kinds, raw_bytes_per_s, _is_pcie, without)
    found = _share(kinds, raw_bytes_per_s, of_generation, without)
    return found._replace(lowest=every.lowest, highest=every.highest) if found.machines else every


def is_old_geforce(name: str) -> bool:
    """Return whether a product name is of the GeForce 20 or 30 series, whose staged copies are slower.

    >>> is_old_geforce("NVIDIA GeForce RTX 3090"), is_old_geforce("RTX 4090")
    (True, False)
    """
    return _OLD_GEFORCE.search(name) is not None


@cache
def staged_share(
    generation: int | None,
    direction: str,
    *,
    below_switch: bool = False,
    old_geforce: bool = False,
    gpus: int = 2,
    without: str = "",
) -> PublicShare:
    """Return the share of a PCIe link that staged copies of one pair reach: one way, or the total of both ways.

    The median is that of the generation, the range that of all generations: few machines have each of them. A class
    without a public machine is the next larger one, both ways in proportion to the rate of one way.
    """
    number = _nearest(generation)
    is_large = gpus >= _LARGE_HOST and direction == BOTH_WAYS and number != str(_NEWEST)

    def share(way: str, *, of_generation: bool, of_size: bool = True, of_place: bool = True) -> PublicShare:
        def wanted(row: CsvRow) -> bool:
            if of_generation and row["pcie_generation"] != number:
                return False
            if old_geforce != is_old_geforce(row["gpu"]):
                return False
            if of_place and below_switch != (row["path_class"] in SWITCHED):
                return False
            # Large hosts of the newest generation are not slower.
            is_of_size = is_large == (int(row["gpus"]) >= _LARGE_HOST) or row["pcie_generation"] == str(_NEWEST)
            return not of_size or way == ONE_WAY or is_of_size

        return _share((f"{way}_staged",), raw_bytes_per_s, wanted, without)

    found = share(direction, of_generation=True)
    if not found.machines:
        found = share(direction, of_generation=False)
        one_way, others = share(ONE_WAY, of_generation=True), share(ONE_WAY, of_generation=False)
        if direction == BOTH_WAYS and one_way.machines and found.machines:
            found = found.scaled(one_way.median / others.median)
    every = share(direction, of_generation=False, of_size=False)
    if every.machines < _FEW:
        every = share(direction, of_generation=False, of_size=False, of_place=False)
    if not found.machines:
        return every
    lowest, highest = (
        (min(found.lowest, every.lowest), max(found.highest, every.highest)) if every.machines else found[1:3]
    )
    return found._replace(lowest=lowest, highest=highest)


@cache
def direct_link_share(kind: str, direction: str = ONE_WAY, *, without: str = "") -> PublicShare:
    """Return the share of the nominal rate of direct links: NVSwitch, NVLink (a bridge or a mesh) or xGMI.

    >>> direct_link_share("xGMI").median < direct_link_share("NVSwitch").median
    True
    """
    kinds = (f"{direction}_p2p",)
    # Machines with bridges have other pairs, too.
    found = _share(kinds, nominal_bytes_per_s, lambda row: not _is_pcie(row) and link_kind(row) == kind, without)
    if not found.machines or found.machines >= _FEW:
        return found
    # The range of few machines is that of all kinds of the same maker.
    maker = "xGMI" if kind == "xGMI" else "NV"
    every = _share(kinds, nominal_bytes_per_s, lambda row: row["path_class"].startswith(maker), without)
    return found._replace(lowest=every.lowest, highest=every.highest)


@cache
def host_link_share(*, without: str = "") -> PublicShare:
    """Return the share of NVLink-C2C that copies of host memory reach, of its rate in the table of GPU models.

    >>> 0.5 < host_link_share().median < 1
    True
    """
    return _share(HOST_KINDS, host_link_bytes_per_s, lambda row: row["path_class"] == "host", without)


def host_link_bytes_per_s(row: CsvRow) -> float | None:
    """Return the rate of the NVLink-C2C of a row; None if its GPUs have none."""
    return gpu_model(row["gpu"]).host_bytes_per_s if is_known_gpu(row["gpu"]) else None


def nominal_bytes_per_s(row: CsvRow) -> float | None:
    """Return the data sheet's rate of a direct link, which may be stated for each of its links; None without it."""
    text, links = row["nvlink_nominal"], _LINKS.fullmatch(row["path_class"])
    of_link = text.removesuffix(" a link")
    count = 1 if of_link == text else int(links[1]) if links is not None else 0
    return float(of_link) * count * 1e9 if count and of_link.replace(".", "", 1).isdigit() else None


def link_kind(row: CsvRow) -> str:
    """Return the kind of direct link of a row."""
    path = row["path_class"]
    return path if path in ("xGMI", "NVSwitch") else "NVLink"


def link_class(kind: str) -> str:
    """Return the class of the error of a kind of direct links: the shares of NVLink and xGMI differ."""
    return "copies over xGMI" if kind == "xGMI" else "copies over NVLink"
