"""GPU models and links from ``nvidia-smi``, ``nvidia-smi -q`` and ``nvidia-smi -L``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fabricast.core.errors import InputError
from fabricast.core.units import PCIE_WIDTHS, pcie_link_bytes_per_s
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.inputs.log_lines import clean_lines
from fabricast.pcie.topology.parts import Vertex, pci_address
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["GpuReport", "is_gpu_report", "model_without_access", "read_gpu_report", "with_gpu_report"]

_ADDRESS = r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
_QUERY = "==NVSMI LOG=="
# Lengths are bounded, so that a long line takes linear time.
_TABLE = re.compile(rf"^\|\s+(\d{{1,3}})\s+(\S.{{0,60}}?)\s{{1,60}}(?:On|Off|N/A)\s*\|\s*{_ADDRESS}\s")
_LIST = re.compile(r"^GPU (\d{1,3}): (.{1,100}?) \(UUID: GPU-")
_DEVICE = re.compile(rf"^GPU {_ADDRESS}\s*$")
_FIELD = re.compile(r"^\s+(Product Name|Max|Current|Device Max)\s+: (.{1,100}?)\s*$")
_NUMBER = re.compile(r"(\d{1,2})x?")
_LATEST_GENERATION = 6


class GpuReport(NamedTuple):
    """Report of nvidia-smi about a GPU.

    Parameters
    ----------
    name : str
        Product name.
    address : str
        PCI address; empty if it was not printed.
    generation, width, current_width, gpu_generation : int or None
        Highest generation and width of the link, its width now, and the highest generation of the GPU; None if they
        were not printed. The generation now depends on the load.
    """

    name: str
    address: str = ""
    generation: int | None = None
    width: int | None = None
    current_width: int | None = None
    gpu_generation: int | None = None

    @property
    def bytes_per_s(self) -> float | None:
        """Raw rate of the link in bytes/s at its highest generation and the width now; None if it is unknown."""
        width = self.current_width or self.width
        if self.generation is None or width is None:
            return None
        return pcie_link_bytes_per_s(self.generation, width)


def is_gpu_report(text: str) -> bool:
    """Return whether a text contains output of ``nvidia-smi`` about GPUs.

    >>> is_gpu_report("GPU 0: NVIDIA L4 (UUID: GPU-1)"), is_gpu_report("nvidia-smi topo -m")
    (True, False)
    """
    if _QUERY in text or "| NVIDIA-SMI " in text:
        return True
    return "(UUID: GPU-" in text and any(_LIST.match(line) for _, line in clean_lines(text))


def read_gpu_report(text: str, path: Path) -> list[GpuReport]:
    """Read the GPUs of a report, in the order of their numbers.

    >>> [report] = read_gpu_report("GPU 0: NVIDIA L4 (UUID: GPU-1)", Path("gpus.txt"))
    >>> report.name
    'NVIDIA L4'
    """
    reports = _of_query(text) if _QUERY in text else _of_lines(text)
    if not reports:
        raise InputError("has no GPU, expected output of 'nvidia-smi -q', 'nvidia-smi' or 'nvidia-smi -L'", path=path)
    return reports


def _of_query(text: str) -> list[GpuReport]:
    """Read the fields of each GPU; later reports repeat them."""
    reports: dict[str, GpuReport] = {}
    address = section = ""
    for _, line in clean_lines(text):
        if (match := _DEVICE.match(line)) is not None:
            address = _short(match[1]) if _short(match[1]) not in reports else ""
            if address:
                reports[address] = GpuReport("", address)
        elif address and (match := _FIELD.match(line)) is not None:
            reports[address] = reports[address]._replace(**_field(section, match[1], match[2]))
        elif line[:1].isspace() and ":" not in line:
            section = line.strip()
    return list(reports.values())


def _short(address: str) -> str:
    """Return a PCI address with four digits of the domain, as lspci prints it."""
    return address.lower()[-12:]


def _field(section: str, name: str, value: str) -> dict[str, Any]:
    if name == "Product Name":
        return {"name": value}
    number = int(match[1]) if (match := _NUMBER.fullmatch(value)) is not None else 0
    if section == "PCIe Generation" and name != "Current" and 1 <= number <= _LATEST_GENERATION:
        return {"generation" if name == "Max" else "gpu_generation": number}
    if section == "Link Width" and name != "Device Max" and number in PCIE_WIDTHS:
        return {"width" if name == "Max" else "current_width": number}
    return {}


def _of_lines(text: str) -> list[GpuReport]:
    """Read the table of nvidia-smi, or else the list of -L; later tables repeat the GPUs."""
    tables: dict[int, GpuReport] = {}
    names: dict[int, GpuReport] = {}
    for _, line in clean_lines(text):
        if (match := _TABLE.match(line)) is not None:
            tables.setdefault(int(match[1]), GpuReport(match[2], _short(match[3])))
        elif (match := _LIST.match(line)) is not None:
            names.setdefault(int(match[1]), GpuReport(match[2]))
    found = tables or names
    return [found[number] for number in sorted(found)]


def _common_model(reports: Sequence[GpuReport]) -> str | None:
    """Return the product name of all GPUs; None if it differs or is unknown."""
    names = {report.name for report in reports}
    name = next(iter(names), "")
    return name if len(names) == 1 and is_known_gpu(name) else None


def model_without_access(reports: Sequence[GpuReport]) -> str | None:
    """Return the first model whose unmodified driver permits no direct copies; None if there is none.

    >>> model_without_access([GpuReport("NVIDIA L4"), GpuReport("NVIDIA GeForce RTX 4090")])
    'NVIDIA GeForce RTX 4090'
    """
    names = (report.name for report in reports if is_known_gpu(report.name))
    return next((name for name in names if not gpu_model(name).has_stock_peer_access), None)


def with_gpu_report(tree: PcieTree, reports: Sequence[GpuReport], path: Path, origin: str) -> PcieTree:
    """Return a tree with the links of a report.

    Link speeds are added if the tree has none: those that were printed, or those of the GPU model.
    """
    names = tree.accelerator_names
    if len(reports) != len(names):
        raise InputError(f"has {len(reports)} GPUs, expected {len(names)} as in {origin}", path=path)
    of_address = {pci_address(report.address): report for report in reports if report.address}
    report_of = {
        name: of_address.get(pci_address(tree.vertex(name).label), report)
        for name, report in zip(names, reports, strict=True)
    }
    tree = _with_addresses(tree, report_of)
    _check_widths(tree, report_of, path, origin)
    tree = replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, *_downgraded(report_of)])))
    if tree.link_bytes_per_s is not None:
        return tree
    rates = {name: report.bytes_per_s for name, report in report_of.items()}
    known = {name: rate for name, rate in rates.items() if rate is not None}
    if len(known) == len(rates):
        return _with_rates(tree, known, report_of)
    model = _common_model(reports)
    if model is None:
        return tree
    link = gpu_model(model)
    text = (
        f"the link of each GPU is assumed to be gen{link.generation}x{link.width}, as its model {model} has; "
        "'nvidia-smi -q' prints it"
    )
    rate = pcie_link_bytes_per_s(link.generation, link.width)
    return replace(_with_speed(tree, rate), warnings=(*_kept(tree), Warning(WarningCode.TOPOLOGY_NOTE, text)))


def _with_addresses(tree: PcieTree, report_of: dict[str, GpuReport]) -> PcieTree:
    """Return a tree whose GPUs have the PCI addresses of a report where the topology has none."""
    addresses = {
        name: report.address
        for name, report in report_of.items()
        if report.address and not pci_address(tree.vertex(name).label)
    }
    vertices = tuple(
        replace(vertex, label=addresses[vertex.name]) if vertex.name in addresses else vertex
        for vertex in tree.vertices
    )
    return replace(tree, vertices=vertices) if addresses else tree


def _check_widths(tree: PcieTree, report_of: dict[str, GpuReport], path: Path, origin: str) -> None:
    for name, report in report_of.items():
        printed, width = report.current_width, tree.vertex(name).width
        if printed is not None and width is not None and printed != width:
            raise InputError(
                f"GPU {name} has a link of x{printed}, expected x{width} as in {origin}: the files contradict each "
                "other",
                path=path,
            )


def _downgraded(report_of: dict[str, GpuReport]) -> Iterator[Warning]:
    for name, report in report_of.items():
        link = f"the link of {report.address or name}"
        if report.width is not None and report.current_width is not None and report.current_width < report.width:
            text = (
                f"{link} uses x{report.current_width} of x{report.width}: the slot or a riser limits it; the forecast "
                "uses the smaller width"
            )
            yield Warning(WarningCode.DOWNGRADED_LINK, text)
        if None not in (report.generation, report.gpu_generation) and report.generation != report.gpu_generation:
            text = f"{link} reaches Gen{report.generation} of Gen{report.gpu_generation}: slot or BIOS limits it"
            yield Warning(WarningCode.DOWNGRADED_LINK, text)


def _with_rates(tree: PcieTree, rates: dict[str, float], report_of: dict[str, GpuReport]) -> PcieTree:
    """Return a tree whose GPUs have links of some rates."""
    highest = max(rates.values())

    def changed(vertex: Vertex) -> Vertex:
        if vertex.name not in rates:
            return vertex
        report = report_of[vertex.name]
        return replace(
            vertex,
            capacity=rates[vertex.name] / highest,
            generation=report.generation,
            width=report.current_width or report.width,
        )

    return replace(_with_speed(tree, highest), vertices=tuple(map(changed, tree.vertices)))


def _with_speed(tree: PcieTree, rate: float) -> PcieTree:
    return replace(tree, link_bytes_per_s=rate, warnings=_kept(tree))


def _kept(tree: PcieTree) -> tuple[Warning, ...]:
    return tuple(warning for warning in tree.warnings if warning.code is not WarningCode.LINK_SPEED_MISSING)
