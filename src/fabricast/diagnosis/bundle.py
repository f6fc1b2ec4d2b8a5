"""Diagnosis of all files of a machine: every measurement is compared with its expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fabricast.collectives.diagnosis import Cause, diagnose_collective
from fabricast.collectives.forecast import forecast_prepared
from fabricast.collectives.inputs import CollectiveInputs, prepare
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, UnreadableFileError
from fabricast.core.warnings import CopyWarning, Warning, WarningCode
from fabricast.diagnosis.evidence import ACCESS, CONTRADICTION, LINK, Evidence, place
from fabricast.diagnosis.logs import later_wrong_results, log_findings, wrong_results
from fabricast.diagnosis.sources import MOST_TABLES, Content, Source, contents_without, read_sources
from fabricast.inputs.bandwidth_matrices import pairs_without_access
from fabricast.inputs.files import read_text
from fabricast.inputs.gpus import is_known_gpu
from fabricast.inputs.log_lines import clean_text
from fabricast.nccl.tests_output import NcclTestsTable
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.addresses import common_model, known_gpus
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.peer_access import with_granted_access
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.listings.gpu_reports import is_gpu_report, read_gpu_report, with_gpu_report
from fabricast.pcie.topology.listings.importing import describes_machine, import_machine, with_cards_noted
from fabricast.pcie.topology.listings.peer_access import has_access_matrix, read_access_matrix, with_peer_access
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

__all__ = ["Diagnosis", "Evidence", "diagnose"]

#: Maximum number of findings.
MOST_FINDINGS = 10
#: Remedy of a warning about the topology.
_REMEDIES = {
    WarningCode.DOWNGRADED_LINK: "reseat the card, replace the riser or use another slot; check 'lspci -vv' (LnkSta)",
    WarningCode.ACCESS_CONTROL: "disable ACS of these ports (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.NO_PEER_ACCESS: "check driver, IOMMU, ACS and virtualisation; direct copies need peer access",
    WarningCode.SMALL_PAYLOAD: "raise MaxPayload in the BIOS, or boot with pci=pcie_bus_perf ('lspci -vv', DevCtl)",
    WarningCode.SLOW_LINKS: "check 'lspci -vv' (LnkSta) while the GPUs copy",
    WarningCode.CARD_ON_OTHER_SOCKET: "move a card to that socket, or bind the job to the GPUs of the card's socket",
}
_ACCESS_CODES = (WarningCode.NO_PEER_ACCESS, WarningCode.CARD_ON_OTHER_SOCKET)


@dataclass(frozen=True)
class Diagnosis:
    """Findings about a machine.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    sources : tuple of str
        What was recognised in each file.
    findings : tuple of Evidence
        At most ten findings, most costly first.
    omitted : int
        Number of further findings.
    warnings : tuple of Warning
        Assumptions.
    measured, compared : int
        Number of files with measured copies and of tables of nccl-tests, and how many are compared with their
        expectation.
    damaged : int
        Number of files of known programs that cannot be read completely.
    """

    tree: PcieTree
    sources: tuple[str, ...]
    findings: tuple[Evidence, ...]
    omitted: int
    warnings: tuple[Warning, ...]
    measured: int
    compared: int
    damaged: int


@with_checked_types
def diagnose(
    files: Sequence[str | Path],
    *,
    gpu: str | None = None,
    cpu: str | None = None,
    link: str | None = None,
    include_display: bool = False,
) -> Diagnosis:
    """Name the causes of lost time on a machine, from the files of a bug report.

    Every measured pair and collective operation is compared with its expectation.
    """
    sources = read_sources([Path(path) for path in files])
    printed = [table.gpus[0] for source in sources for table in source.tables if table.gpus]
    measured_gpus = [known_gpus(source.text) for source in sources if Content.COPIES in source.contents]
    printed += filter(None, map(common_model, measured_gpus))
    model = gpu or next(filter(is_known_gpu, printed), None)
    tree, described, sources = _tree_of(sources, link, model, include_display=include_display)
    findings: list[Evidence] = [*_of_topology(tree, described, {source.path: source.text for source in sources})]
    warnings: list[Warning] = list(tree.warnings)
    for names in measured_gpus:
        if len(names) > 1 and common_model(names) is None:
            text = f"the measured copies are of {' and '.join(names)}: no GPU model is assumed from them"
            warnings.append(Warning(WarningCode.GPU_MODELS_DIFFER, text))
    with_copies, measured = 0, []
    for number, source in enumerate(sources):
        if Content.NCCL_LOG in source.contents:
            findings += log_findings(source)
        if Content.COPIES not in source.contents:
            continue
        with_copies += 1
        try:
            findings += _of_copies(tree, source)
            measured.append(source.path)
        except InputError as error:
            sources[number] = _without(Content.COPIES, source, error)
    debug = next((source.log for source in sources if source.log is not None), None)
    compared = len(measured)
    tables = [(source, table) for source in sources for table in source.tables]
    for source, table in tables[:MOST_TABLES]:
        inputs = CollectiveInputs(
            measured[0] if measured else None, log=source.path, gpu=gpu, cpu=cpu, read=table, debug=source.log or debug
        )
        findings += wrong_results(source, table)
        try:
            found, assumed = _of_collective(tree, table, inputs)
        except InputError as error:
            # Tables of several hosts, of other GPUs or over NVLink: the rest of the bundle is compared.
            text = f"{source.path}:{table.line}: the table is not compared: {error.reason}"
            warnings.append(Warning(WarningCode.LOG_ROWS_EXCLUDED, text))
            continue
        findings += found
        warnings += assumed
        compared += 1
    findings += [finding for source in sources for finding in later_wrong_results(source)]
    all_tables = len(tables) + sum(source.more_tables for source in sources)
    if all_tables > MOST_TABLES:
        text = f"{all_tables - MOST_TABLES:,} of {all_tables:,} tables of nccl-tests are not compared"
        warnings.append(Warning(WarningCode.LOG_ROWS_EXCLUDED, text))
    ranked = sorted(_unique(findings), key=lambda one: -one.cost)
    return Diagnosis(
        tree,
        tuple(str(source) for source in sources),
        tuple(ranked[:MOST_FINDINGS]),
        max(len(ranked) - MOST_FINDINGS, 0),
        tuple(dict.fromkeys(warnings)),
        with_copies + all_tables,
        compared,
        sum(source.problem is not None for source in sources),
    )


def _tree_of(
    sources: Sequence[Source], link: str | None, gpu: str | None, *, include_display: bool
) -> tuple[PcieTree, list[Path], list[Source]]:
    """Return the topology, the files that describe it, and all sources with the reason why any is damaged."""
    left = list(sources)
    while True:
        described = _descriptions(left)
        try:
            if not described:
                problem = next((source.problem for source in left if source.problem is not None), None)
                raise problem or InputError(_NO_TOPOLOGY, argument="files")
            tree = _tree(described, link, gpu, include_display=include_display)
            break
        except UnreadableFileError as error:
            if len(described) < 2:
                raise
            left = [
                _without(Content.TOPOLOGY, source, error) if source.path == error.path else source for source in left
            ]
    for source in left:
        if Content.COPIES in source.contents:
            tree = with_granted_access(tree, source.text, source.path)
    return tree, described, left


_NO_TOPOLOGY = "describe no topology, expected hwloc or NCCL XML, nvidia-smi topo, lspci or NCCL_DEBUG_SUBSYS=GRAPH"


def _without(damaged: Content, source: Source, problem: InputError) -> Source:
    return replace(source, contents=contents_without(damaged, source.contents), problem=problem)


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in (".yaml", ".yml")


def _descriptions(sources: Sequence[Source]) -> list[Path]:
    """Return the files that describe the machine; with a YAML topology, the lines of NCCL logs are not needed."""
    described = [source for source in sources if Content.TOPOLOGY in source.contents]
    has_yaml = any(_is_yaml(source.path) for source in described)
    return [source.path for source in described if not (has_yaml and Content.NCCL_LOG in source.contents)]


def _tree(paths: Sequence[Path], link: str | None, gpu: str | None, *, include_display: bool) -> PcieTree:
    yaml = next((path for path in paths if _is_yaml(path)), None)
    if yaml is not None:
        tree = with_cards_noted(load_tree(yaml))
        for path in paths:
            text = "" if path == yaml else read_text(path)
            if not text:
                continue
            if describes_machine(text) or not (has_access_matrix(text) or is_gpu_report(text)):
                raise InputError("is one of several descriptions, expected only a YAML topology", path=yaml)
            if has_access_matrix(text):
                tree = with_peer_access(tree, read_access_matrix(text, path), None, path)
            if is_gpu_report(text):
                tree = with_gpu_report(tree, read_gpu_report(text, path), path, str(yaml))
        return tree
    return import_machine(paths, link=link, gpu=gpu, include_display=include_display, network_cards=True)


def _unique(findings: Sequence[Evidence]) -> list[Evidence]:
    """Return findings with different causes and texts: several tables repeat those of the machine."""
    kept: dict[tuple[str, str], Evidence] = {}
    for finding in findings:
        key = (finding.cause, finding.text)
        if key not in kept or kept[key].cost < finding.cost:
            kept[key] = finding
    return list(kept.values())


def _of_topology(tree: PcieTree, paths: Sequence[Path], texts: Mapping[Path, str]) -> Iterator[Evidence]:
    for warning in tree.warnings:
        if warning.code in _REMEDIES:
            weight = ACCESS if warning.code in _ACCESS_CODES else LINK
            origin = _origin(warning.text, paths, texts)
            yield Evidence(warning.code, warning.text, origin, _REMEDIES[warning.code], weight)


#: PCI address in the text of a warning.
_ADDRESS = re.compile(r"\b[0-9a-f]{4}:([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b")


def _origin(text: str, paths: Sequence[Path], texts: Mapping[Path, str]) -> str:
    """Return file and line of the first device that a warning names, or all files that describe the machine."""
    address = _ADDRESS.search(text)
    for path in paths if address is not None else ():
        for number, line in enumerate(clean_text(texts[path]).splitlines(), 1):
            # nvidia-smi -q prints eight digits of the domain.
            device = line.lower().removeprefix("gpu 0000")
            if address is not None and device.startswith((address[0], address[1])):
                return f"{path}:{number}"
    return ", ".join(map(str, paths))


def _of_copies(tree: PcieTree, source: Source) -> Iterator[Evidence]:
    """Compare measured copies with the topology and with each other."""
    refused = pairs_without_access(source.text)
    if refused:
        first = source.text[: source.text.index("CANNOT Access Peer")].count("\n") + 1
        yield Evidence(
            "no_peer_access",
            f"{len(refused)} pairs have no direct copies (for example GPU {refused[0][0]} to {refused[0][1]}): data "
            "pass through host memory, in two copies",
            f"{source.path}:{first}",
            "check driver, IOMMU, ACS and virtualisation; 'nvidia-smi topo -p2p r' names the reason",
            ACCESS,
        )
    try:
        copies = copies_of_machine(tree, source.path)
    except InputError:
        # Without direct copies the file has no copies between GPUs, which the finding above states.
        if refused:
            return
        raise
    validation = validate_machine(
        tree, copies.graphs, one_way_bytes_per_s=single_copy_rate_of(tree), warnings=copies.warnings
    )
    found = [warning for warning in validation.warnings if warning.code.is_contradiction]
    if any(warning.code in _SPECIFIC for warning in found):
        # A slow GPU or direction explains why copies of one class differ.
        found = [warning for warning in found if warning.code is not WarningCode.CALIBRATION_CONTRADICTED]
    for warning in found:
        line = _line_of(warning, copies.graphs)
        origin = f"{source.path}:{line}" if line else place(source, _MATRIX)
        yield Evidence(warning.code, warning.text, origin, _COPY_REMEDIES.get(warning.code, _REPEAT), CONTRADICTION)


def _line_of(warning: Warning, graphs: Sequence[MeasuredGraph]) -> int:
    """Return the line of the slowest single copy that shows a warning, or that of the first copies; 0 if unknown."""
    ends, name = (warning.ends, warning.graph) if isinstance(warning, CopyWarning) else ((), "")
    named = next((graph.line for graph in graphs if graph.name == name), 0)
    if named:
        return named
    singles = [graph for graph in graphs if len(graph.flows) == 1]
    shown = [graph for graph in singles if graph.flows[0] == ends or (len(ends) == 1 and ends[0] in graph.flows[0])]
    if not shown and warning.code is WarningCode.SLOW_ENDPOINT:
        # A slow link between switches: the slowest copies use it.
        shown = singles
    if shown:
        return min(shown, key=lambda graph: (graph.total_bytes_per_s, graph.flows[0][:1] != ends[:1])).line
    return next((graph.line for graph in graphs if graph.line), 0)


#: Codes of causes that name a GPU, a direction or a transport.
_SPECIFIC = (
    WarningCode.SLOW_ENDPOINT,
    WarningCode.SLOW_DIRECTION,
    WarningCode.SLOWER_THAN_STAGED,
    WarningCode.SLOW_BELOW_SWITCH,
    WarningCode.SLOW_BETWEEN_SOCKETS,
)
_REPEAT = "check 'lspci -vv' (LnkSta, ACSCtl) while the GPUs copy, and measure again"
_COPY_REMEDIES = {
    WarningCode.SLOW_BELOW_SWITCH: "disable ACS of the switch (BIOS, or 'setpci' on ACSCtl) and the IOMMU",
    WarningCode.SLOW_BETWEEN_SOCKETS: "compare with NCCL_P2P_LEVEL=NODE; check the NUMA setting (NPS) of the BIOS",
}
_MATRIX = re.compile(
    r"Unidirectional P2P=Enabled|Running device_to_device|^memcpy|TransferBench v|p2pmark|RocmBandwidth", re.M
)


def _of_collective(
    tree: PcieTree, table: NcclTestsTable, inputs: CollectiveInputs
) -> tuple[list[Evidence], tuple[Warning, ...]]:
    """Compare one table of nccl-tests with its forecast."""
    operation = table.operation
    if operation is None:
        raise InputError("does not name its operation")
    forecast = forecast_prepared(prepare(tree, operation, inputs))
    found = [
        Evidence(
            str(one.cause), f"{operation}: {one.text}", f"{inputs.log}:{_rows(table, one.sizes)}", one.remedy, one.gain
        )
        for one in diagnose_collective(forecast)
    ]
    slow = [one for one in found if one.cause == Cause.SLOWER_THAN_FORECAST]
    if not slow:
        # The machine does what is expected of it: only changes with a forecast gain are findings.
        found = [one for one in found if one.cost > 1]
    return found, forecast.warnings


def _rows(table: NcclTestsTable, sizes: tuple[float, float]) -> str:
    """Return the first and last line of the rows of a range of sizes, or the line of the header."""
    lines = [row.line for row in table.rows if sizes[0] <= row.size_bytes <= sizes[1]] or [table.line]
    first, last = min(lines), max(lines)
    return str(first) if first == last else f"{first}-{last}"
