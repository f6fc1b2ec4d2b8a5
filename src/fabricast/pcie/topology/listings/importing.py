"""Import of a topology from any combination of descriptions of one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError, NoAcceleratorError, UnreadableFileError
from fabricast.core.units import HEADER_BYTES, PAYLOAD_BYTES, PCIE_WIDTHS, pcie_link_bytes_per_s
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.files import read_text
from fabricast.inputs.gpus import gpu_model
from fabricast.inputs.nearest_program import nearest_program
from fabricast.pcie.topology.listings.descriptions import Described, compare
from fabricast.pcie.topology.listings.gpu_reports import (
    GpuReport,
    is_gpu_report,
    model_without_access,
    read_gpu_report,
    with_gpu_report,
)
from fabricast.pcie.topology.listings.lspci import (
    PciDevice,
    is_lspci_tree,
    is_verbose_lspci,
    lspci_machine,
    payload_of_gpus,
    printed_gpu,
    read_lspci,
    read_lspci_tree,
)
from fabricast.pcie.topology.listings.nccl_lines import has_nccl_tree, read_nccl_tree
from fabricast.pcie.topology.listings.nvidia_smi import (
    is_rocm_matrix,
    is_topology_matrix,
    read_rocm_matrix,
    read_topology_matrix,
)
from fabricast.pcie.topology.listings.path_classes import tree_of_classes
from fabricast.pcie.topology.listings.peer_access import (
    has_access_matrix,
    read_access_matrix,
    with_peer_access,
    without_access_matrix,
)
from fabricast.pcie.topology.listings.sockets import with_sockets
from fabricast.pcie.topology.tree import PcieTree
from fabricast.pcie.topology.xml_devices import xml_range
from fabricast.pcie.topology.xml_import import build_machine, import_xml

__all__ = ["describes_machine", "import_machine", "link_rate", "with_cards_noted"]

_LINK = re.compile(r"(?:gen|pcie)?\s*([1-6])(?:\.0)?\s*x\s*(\d{1,2})", re.IGNORECASE)
#: Line of topology.conf of Slurm.
_SWITCH = re.compile(r"^\s*SwitchName=", re.MULTILINE | re.IGNORECASE)
#: Programs in the order in which they describe a machine: the first one determines the tree.
_PROGRAMS = ("hwloc or NCCL XML", "lspci -vv", "lspci -tv", "NCCL log", "nvidia-smi topo -m", "rocm-smi --showtopo")
#: Warnings of a file that also hold if another file determines the tree.
_KEPT_WARNINGS = (WarningCode.ACCESS_CONTROL, WarningCode.DOWNGRADED_LINK, WarningCode.CARD_ON_OTHER_SOCKET)


def link_rate(link: str | None, gpu: str | None) -> float | None:
    """Return the raw rate of a link in bytes/s from text such as gen4x16, or that of a GPU model.

    >>> round(link_rate("gen4x16", None) / 1e9, 3), round(link_rate(None, "RTX 5090") / 1e9, 3)
    (31.508, 63.015)
    """
    if link is not None:
        match = _LINK.fullmatch(link.strip())
        if match is None or int(match[2]) not in PCIE_WIDTHS:
            raise InputError(f"is '{link}', expected a generation and a width such as gen4x16", argument="link")
        model = None if gpu is None else gpu_model(gpu)
        if model is not None and (int(match[1]) > model.generation or int(match[2]) > model.width):
            raise InputError(f"is '{link}', but {gpu} has at most gen{model.generation}x{model.width}", argument="link")
        return pcie_link_bytes_per_s(int(match[1]), int(match[2]))
    if gpu is not None:
        model = gpu_model(gpu)
        return pcie_link_bytes_per_s(model.generation, model.width)
    return None


def describes_machine(text: str) -> bool:
    """Return whether a text contains the description of a machine by a known program."""
    if xml_range(text) is not None:
        return True
    text = without_access_matrix(text)
    recognisers = (is_topology_matrix, is_rocm_matrix, is_verbose_lspci, is_lspci_tree, has_nccl_tree)
    return any(recognises(text) for recognises in recognisers)


def import_machine(
    paths: Sequence[Path | str],
    *,
    link: str | None = None,
    gpu: str | None = None,
    include_display: bool = False,
    network_cards: bool = False,
) -> PcieTree:
    """Import the topology of one machine from one or several files."""
    if not paths:
        raise InputError("is empty, expected at least one file", argument="files")
    rate = link_rate(link, gpu)
    files = [Path(path) for path in paths]
    networks = [path for path in files if _is_network(path)]
    networks = networks if len(networks) < len(files) else []
    access, reports, described = _beside_topologies([path for path in files if path not in networks])
    found: list[Described] = []
    for path in described:
        with _naming(path):
            found += _described(path, rate, gpu, include_display=include_display, network_cards=network_cards)
    found = [replace(one, tree=with_cards_noted(one.tree)) for one in found]
    found.sort(key=lambda one: _PROGRAMS.index(one.program))
    first, *others = found
    for other in others:
        compare(first, other)
    tree = first.tree
    if not first.has_sockets:
        by_socket = next((one.tree for one in others if one.has_sockets), None)
        tree = tree if by_socket is None else with_sockets(tree, by_socket)
    more = [warning for one in others for warning in one.tree.warnings if warning.code in _KEPT_WARNINGS]
    peers = next((one.tree.peer_links for one in found if one.tree.peer_links), tree.peer_links)
    tree = replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, *more])))
    models = [*map(model_without_access, reports.values()), *(one.gpu for one in found)]
    printed = next((model for model in models if model is not None), None)
    tree = with_peer_access(replace(tree, peer_links=peers), access[1], gpu or printed, access[0])
    tree = _with_speed(tree, rate, others)
    origin = f"{first.path} ({first.program})"
    for path, report in reports.items():
        has_widths = any(tree.vertex(name).width for name in tree.accelerator_names)
        tree = with_gpu_report(tree, report, path, origin)
        origin = origin if has_widths else f"{path} (nvidia-smi)"
    tree = replace(tree, warnings=(*tree.warnings, *map(_network_note, networks)))
    return _with_payload(tree, found)


def _is_network(path: Path | str) -> bool:
    """Return whether a file is topology.conf of Slurm, which describes the switches between hosts."""
    return Path(path).suffix.lower() == ".conf" and _SWITCH.search(read_text(path)) is not None


def _network_note(path: Path) -> Warning:
    text = f"{path} describes the network between hosts, no part of this topology; 'fabricast map --hosts' reads it"
    return Warning(WarningCode.TOPOLOGY_NOTE, text)


def _with_speed(tree: PcieTree, rate: float | None, others: Sequence[Described]) -> PcieTree:
    """Return a topology without link speeds with those of other descriptions, or of all links."""
    if tree.link_bytes_per_s is not None:
        return tree
    with_speed = next((one.tree for one in others if one.tree.link_bytes_per_s is not None), None)
    speed = rate if with_speed is None else with_speed.link_bytes_per_s
    if speed is None:
        return tree
    kept = tuple(warning for warning in tree.warnings if warning.code is not WarningCode.LINK_SPEED_MISSING)
    return replace(tree, link_bytes_per_s=speed, warnings=kept)


def _with_payload(tree: PcieTree, found: Sequence[Described]) -> PcieTree:
    """Return a topology whose copies have the payload share of the packets that lspci printed."""
    payload = next((one.payload_bytes for one in found if one.payload_bytes is not None), PAYLOAD_BYTES)
    if payload == PAYLOAD_BYTES or tree.link_bytes_per_s is None:
        return tree
    share = payload / (payload + HEADER_BYTES)
    text = f"MaxPayload of the GPUs is {payload} bytes: an isolated copy gets {share:.1%} of its links"
    warnings = (*tree.warnings, Warning(_payload_code(payload), text))
    return replace(tree, bandwidth_bytes_per_s=tree.link_bytes_per_s * share, warnings=warnings)


def _payload_code(payload_bytes: int) -> WarningCode:
    return WarningCode.SMALL_PAYLOAD if payload_bytes < PAYLOAD_BYTES else WarningCode.TOPOLOGY_NOTE


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Mark errors of reading a file, which are no contradictions of files, with its name."""
    try:
        yield
    except InputError as error:
        if type(error) is not InputError or error.argument is not None:
            raise
        raise UnreadableFileError(error.reason, path=path, line=error.line) from error


_Access = tuple[Path | str, dict[tuple[int, int], str] | None]


def _beside_topologies(paths: Sequence[Path]) -> tuple[_Access, dict[Path, list[GpuReport]], list[Path]]:
    """Return file and content of the matrix of peer access, the reports of GPUs, and the files with a topology."""
    access: _Access = ("", None)
    reports: dict[Path, list[GpuReport]] = {}
    described = []
    for path in paths:
        text = "" if path.suffix.lower() == ".xml" else read_text(path)
        has_access, has_report = has_access_matrix(text), is_gpu_report(text)
        if has_access:
            with _naming(path):
                matrix = read_access_matrix(text, path)
            if access[1] is not None and access[1] != matrix:
                raise InputError(f"has another peer access than {access[0]}, expected the same", path=path)
            access = (path, matrix)
        if has_report:
            with _naming(path):
                reports[path] = read_gpu_report(text, path)
        if not (has_access or has_report) or describes_machine(text):
            described.append(path)
    if not described:
        raise InputError("has no topology, expected one too ('nvidia-smi topo -m')", path=paths[0])
    return access, reports, described


def _described(
    path: Path, rate: float | None, gpu: str | None, *, include_display: bool, network_cards: bool
) -> list[Described]:
    """Read one file with the reader of each program whose output it contains."""
    is_file = path.suffix.lower() == ".xml"
    text = "" if is_file else read_text(path)
    xml = (0, 0) if is_file else xml_range(text)
    found = []
    if xml is not None:
        tree = import_xml(path, include_display=include_display, network_cards=network_cards)
        found.append(Described("hwloc or NCCL XML", path, tree))
        text = text[: xml[0]] + text[xml[1] :]
    text = without_access_matrix(text)
    found += [
        *_of_matrices(path, text, rate, gpu, network_cards=network_cards),
        *_of_lspci(path, text, include_display=include_display, network_cards=network_cards),
    ]
    if has_nccl_tree(text):
        machine = read_nccl_tree(text, path, network_cards=network_cards)
        found.append(Described("NCCL log", path, build_machine(path, machine, "NCCL log")))
    if found:
        return found
    if not text.strip():
        raise InputError("is empty", path=path)
    if "NCCL INFO" in text:
        raise InputError("is a log of NCCL without its topology, expected lines of NCCL_DEBUG_SUBSYS=GRAPH", path=path)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")[:80]
    raise InputError(
        f"was written by no known program (first line '{first}'), expected hwloc or NCCL XML, or output of "
        "nvidia-smi topo, rocm-smi, lspci or NCCL_DEBUG_SUBSYS=GRAPH" + nearest_program(text),
        path=path,
    )


def _of_matrices(
    path: Path, text: str, rate: float | None, gpu: str | None, *, network_cards: bool
) -> Iterator[Described]:
    """Yield the trees of matrices of path classes or link types, which have no link speeds."""
    peer_rate = gpu_model(gpu).nvlink_bytes_per_s if gpu is not None else None
    if is_topology_matrix(text):
        tree = tree_of_classes(
            read_topology_matrix(text, path),
            path,
            "nvidia-smi topo -m",
            link_bytes_per_s=rate,
            peer_link_bytes_per_s=peer_rate,
            network_cards=network_cards,
        )
        yield Described("nvidia-smi topo -m", path, tree, has_speeds=False)
    if is_rocm_matrix(text):
        matrix = read_rocm_matrix(text, path)
        tree = tree_of_classes(
            matrix,
            path,
            "rocm-smi --showtopo",
            link_bytes_per_s=rate,
            peer_link_bytes_per_s=peer_rate,
            network_cards=network_cards,
        )
        has_nodes = any(node is not None for node in matrix.numa_nodes)
        yield Described("rocm-smi --showtopo", path, tree, has_nodes, has_switches=False, has_speeds=False)


def _of_lspci(path: Path, text: str, *, include_display: bool, network_cards: bool) -> Iterator[Described]:
    """Yield the tree of lspci output.

    Graphics cards are the accelerators of a machine without other ones: GeForce cards are display controllers.
    """
    verbose = is_verbose_lspci(text)
    if not verbose and not is_lspci_tree(text):
        return
    devices = read_lspci(text, path) if verbose else read_lspci_tree(text, path)
    program = "lspci -vv" if verbose else "lspci -tv"
    notes: tuple[Warning, ...] = ()
    try:
        tree = _tree_of_lspci(devices, path, program, include_display=include_display, network_cards=network_cards)
    except NoAcceleratorError:
        if include_display:
            raise
        tree = _tree_of_lspci(devices, path, program, include_display=True, network_cards=network_cards)
        notes = (_DISPLAY_NOTE,)
    has_nodes = any(node.numa_nodes for node in lspci_machine(devices, path).sockets)
    tree = replace(tree, warnings=(*tree.warnings, *notes))
    yield Described(
        program,
        path,
        tree,
        has_nodes,
        has_speeds=tree.link_bytes_per_s is not None,
        gpu=printed_gpu(devices),
        payload_bytes=payload_of_gpus(devices),
    )


_DISPLAY_NOTE = Warning(
    WarningCode.TOPOLOGY_NOTE,
    "the machine has no accelerator but graphics cards: all cards of NVIDIA and AMD are GPUs (--include-display)",
)


def _tree_of_lspci(
    devices: Sequence[PciDevice], path: Path, program: str, *, include_display: bool, network_cards: bool
) -> PcieTree:
    machine = lspci_machine(list(devices), path, include_display=include_display, network_cards=network_cards)
    return build_machine(path, machine, program)


def with_cards_noted(tree: PcieTree) -> PcieTree:
    """Return a tree with a warning about GPUs whose network cards are all on another socket."""
    cards = [name for name in tree.endpoint_names if tree.vertex(name).network_card]
    far = [
        gpu for gpu in tree.accelerator_names if cards and all(tree.path_class(gpu, card) == "SYS" for card in cards)
    ]
    if not far:
        return tree
    text = f"GPUs {', '.join(far)} reach every network card only through another socket"
    # A topology file that an import wrote already has the warning.
    warning = Warning(WarningCode.CARD_ON_OTHER_SOCKET, text)
    return replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, warning])))
