"""Inputs of a forecast of collective operations: settings from users, logs and product names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fabricast.collectives.machine import CollectiveMachine, collective_machine, has_gen5_links
from fabricast.collectives.model import Choice
from fabricast.collectives.plan import Plan, nccl_plan
from fabricast.collectives.settings import NcclSettings, cpu_of, with_environment
from fabricast.collectives.step_rates import Transport
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.files import is_table, read_text
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.inputs.log_lines import clean_text
from fabricast.inputs.nearest_program import nearest_program
from fabricast.nccl.costs import Algorithm, Operation, Protocol
from fabricast.nccl.debug_log import NcclLog, is_nccl_log, read_nccl_log
from fabricast.nccl.graph_files import read_graph
from fabricast.nccl.search import SearchGraph
from fabricast.nccl.system import NEWEST, Cpu, PathType, parse_version
from fabricast.nccl.tests_output import NcclTestsTable, is_nccl_tests_output, read_nccl_tests
from fabricast.pcie.measurements.addresses import address_warnings, common_model, known_gpus
from fabricast.pcie.measurements.peer_access import has_direct_copies, with_measured_access
from fabricast.pcie.topology.parts import pairs_without_link, pci_address
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

__all__ = ["CollectiveInputs", "prepare"]

#: Words in the name of processors for one socket, all of whose root complexes are one NUMA node by default.
_ONE_SOCKET = ("threadripper", "ryzen")


@dataclass(frozen=True)
class CollectiveInputs:
    """Inputs of a forecast; None if unspecified.

    Parameters
    ----------
    measurements, system, log, ranks, cpu, gpu, numa, nccl_version, transport, env, graph_file, table
        See `fabricast.collective`.
    read : NcclTestsTable, optional
        Table of the log, if it was read already.
    debug : NcclLog, optional
        Statements of NCCL in another file than the log, or of a log that was read already.
    measured_gpu : str, optional
        GPU model that the program of the measurements printed; read from their file by default.
    """

    measurements: Path | str | None = None
    system: str | None = None
    log: Path | str | None = None
    ranks: Sequence[str] | None = None
    cpu: str | None = None
    gpu: str | None = None
    numa: Sequence[int] | None = None
    nccl_version: str | None = None
    transport: str | None = None
    env: Mapping[str, str] | None = None
    graph_file: Path | str | None = None
    table: int | None = None
    read: NcclTestsTable | None = None
    debug: NcclLog | None = None
    measured_gpu: str | None = None

    def __post_init__(self) -> None:
        if self.system is not None and self.measurements is None:
            raise InputError("is specified without measurements", argument="system")


@dataclass(frozen=True)
class Prepared:
    """Machine, plan and log of a forecast.

    Parameters
    ----------
    machine : CollectiveMachine
        Machine.
    plan : Plan
        Rings and transports.
    operation : Operation
        Operation.
    log : NcclTestsTable or None
        Measured times.
    choices : dict of int to (Algorithm, Protocol)
        Choices that the log states, by size in bytes.
    """

    machine: CollectiveMachine
    plan: Plan
    operation: Operation
    log: NcclTestsTable | None
    choices: Mapping[int, Choice]


def prepare(tree: PcieTree, operation: str | None, inputs: CollectiveInputs) -> Prepared:
    """Return the machine, the plan and the log of a forecast.

    What no input states is assumed, and a warning names the assumption.
    """
    if inputs.measured_gpu is None and inputs.measurements is not None and not is_table(inputs.measurements):
        gpus = known_gpus(clean_text(read_text(inputs.measurements)))
        inputs = replace(inputs, measured_gpu=common_model(gpus))
    if inputs.measurements is not None and not has_direct_copies(inputs.measurements):
        # Without peer access the file has no rates of links, but states the transport.
        if inputs.system is not None:
            raise InputError(f"is '{inputs.system}', but the measurements name no machine", argument="system")
        tree = with_measured_access(tree, inputs.measurements)
        inputs = replace(inputs, measurements=None)
    tables, debug = _read_log(inputs, operation)
    wanted = Operation.of(operation) if operation is not None else _operation(tables)
    table = _table(tables, wanted, inputs)
    inputs, rank_warnings = _with_ranks_of(table, tree, inputs)
    tree, link_warnings = _with_link_of_gpu(tree, inputs, table)
    settings, warnings = _settings(tree, inputs, table, debug)
    warnings += [*rank_warnings, *link_warnings, *_of_other_gpus(inputs, table)]
    machine = collective_machine(
        tree, ranks=inputs.ranks, settings=settings, measurements=inputs.measurements, system=inputs.system
    )
    machine = replace(machine, warnings=(*machine.warnings, *warnings))
    plan = _plan(machine, inputs, debug)
    return Prepared(machine, plan, wanted, table, _choices(debug, wanted))


def _with_ranks_of(
    table: NcclTestsTable | None, tree: PcieTree, inputs: CollectiveInputs
) -> tuple[CollectiveInputs, list[Warning]]:
    """Return inputs with the GPUs of a log of fewer ranks than GPUs: by PCI address, otherwise by device number."""
    names = tree.accelerator_names
    if inputs.ranks is not None or table is None or table.hosts > 1 or not 0 < len(table.bus_ids) <= len(names):
        return inputs, []
    if len(table.bus_ids) == len(names):
        numbered = {str(rank): f"{bus}.0" for rank, bus in enumerate(table.bus_ids)}
        return inputs, list(address_warnings(tree, numbered, of="the log"))
    at = {pci_address(tree.vertex(name).label)[:2]: name for name in names}
    addresses = [pci_address(f"{bus}.0")[:2] for bus in table.bus_ids]
    if set(addresses) <= at.keys() and () not in addresses:
        return replace(inputs, ranks=[at[address] for address in addresses]), []
    if len(set(table.devices)) < len(table.devices) or max(table.devices) >= len(names):
        return inputs, []
    ranks = [names[device] for device in table.devices]
    text = (
        f"the log has {len(ranks)} of {len(names)} GPUs: {' '.join(ranks)} are assumed, by their device numbers, which "
        "CUDA_VISIBLE_DEVICES changes; specify ranks ('fabricast collective'), or describe the machine with PCI "
        "addresses ('lspci -vv' or 'nvidia-smi')"
    )
    if () not in at:
        text = (
            f"no GPU of the log ({table.bus_ids[0]}, ...) has a PCI address of '{tree.name}': GPUs {' '.join(ranks)} "
            "are assumed, by their device numbers; describe the machine of the log, or specify ranks"
        )
    return replace(inputs, ranks=ranks), [Warning(WarningCode.RANKS_ASSUMED, text)]


def _read_log(inputs: CollectiveInputs, operation: str | None) -> tuple[list[NcclTestsTable], NcclLog | None]:
    if inputs.log is None or inputs.read is not None:
        return [inputs.read] if inputs.read is not None else [], inputs.debug
    text = read_text(inputs.log)
    has_table, has_debug = is_nccl_tests_output(text), is_nccl_log(text)
    if not has_table and not has_debug:
        raise InputError(
            "is not a log of nccl-tests or NCCL: expected a table with '# size count type' or lines 'NCCL INFO'"
            + nearest_program(text),
            path=inputs.log,
        )
    tables = read_nccl_tests(text, inputs.log, operation=operation) if has_table else []
    return tables, read_nccl_log(text, inputs.log) if has_debug else inputs.debug


def _operation(tables: Sequence[NcclTestsTable]) -> Operation:
    named = list(dict.fromkeys(table.operation for table in tables if table.operation is not None))
    if len(named) > 1:
        listed = ", ".join(named)
        raise InputError(f"is unspecified, but the log has tables of {listed}; choose one", argument="operation")
    return named[0] if named else Operation.ALL_REDUCE


def _table(tables: Sequence[NcclTestsTable], operation: Operation, inputs: CollectiveInputs) -> NcclTestsTable | None:
    if not tables:
        if inputs.table is not None:
            raise InputError("is specified, but there is no log with a table", argument="table")
        return None
    fitting = [table for table in tables if table.operation in (operation, None)]
    if not fitting:
        raise InputError(
            f"has tables of {', '.join(str(table.operation) for table in tables)}, expected {operation}",
            path=inputs.log,
        )
    if inputs.table is not None:
        if not 1 <= inputs.table <= len(fitting):
            raise InputError(f"is {inputs.table}, expected 1 to {len(fitting)}", argument="table")
        return fitting[inputs.table - 1]
    if len(fitting) > 1:
        lines = ", ".join(str(table.line) for table in fitting)
        raise InputError(
            f"has {len(fitting)} tables of {operation} (lines {lines}), expected one; choose it by its number (table)",
            path=inputs.log,
        )
    return fitting[0]


def _with_link_of_gpu(
    tree: PcieTree, inputs: CollectiveInputs, table: NcclTestsTable | None
) -> tuple[PcieTree, list[Warning]]:
    """Return a tree without link speeds with those of the GPU model, and a warning about it."""
    gpu = _gpu_of(inputs, table)
    if single_copy_rate_of(tree) is not None or gpu is None or not is_known_gpu(gpu):
        return tree, []
    model = gpu_model(gpu)
    text = (
        f"the topology has no link speeds: Gen{model.generation} x{model.width} of {gpu} is assumed; 'lspci -vv' "
        "prints the links of the machine"
    )
    rate = pcie_link_bytes_per_s(model.generation, model.width)
    return replace(tree, link_bytes_per_s=rate), [Warning(WarningCode.LINK_RATE_DERIVED, text)]


def _gpu_of(inputs: CollectiveInputs, table: NcclTestsTable | None) -> str | None:
    """Return the GPU model that the user or the log states."""
    logged = table.gpus[0] if table is not None and table.gpus else None
    both_known = inputs.gpu is not None and logged is not None and is_known_gpu(logged)
    if both_known and gpu_model(str(inputs.gpu)) != gpu_model(str(logged)):
        raise InputError(f"is '{inputs.gpu}', but the log is of {logged}", argument="gpu")
    return inputs.gpu or logged or inputs.measured_gpu


def _of_other_gpus(inputs: CollectiveInputs, table: NcclTestsTable | None) -> Iterator[Warning]:
    """Warn if the log and the measurements are of different GPU models."""
    logged = table.gpus[0] if table is not None and table.gpus else inputs.gpu
    if inputs.measured_gpu is None or logged is None or not is_known_gpu(logged):
        return
    if gpu_model(logged) != gpu_model(inputs.measured_gpu):
        text = f"the measured copies are of {inputs.measured_gpu}, but the collective operation is of {logged}"
        yield Warning(WarningCode.GPU_MODELS_DIFFER, f"{text}: use measurements of one machine")


def _settings(
    tree: PcieTree, inputs: CollectiveInputs, table: NcclTestsTable | None, debug: NcclLog | None
) -> tuple[NcclSettings, list[Warning]]:
    """Return the settings of NCCL with warnings about assumptions."""
    warnings: list[Warning] = []

    def assume(text: str) -> None:
        warnings.append(Warning(WarningCode.NCCL_SETTING_ASSUMED, text))

    gpu = _gpu_of(inputs, table)
    if gpu is not None and inputs.gpu is None and not is_known_gpu(gpu):
        assume(f"the GPU model '{gpu}' of the log is unknown; of RCCL on AMD GPUs, the choices of NCCL are assumed")
        gpu = None
    capability = None if gpu is None else gpu_model(gpu).capability
    if gpu is not None and capability is None:
        assume(f"{gpu} uses RCCL: the choices of NCCL are assumed, although those of RCCL may differ")
    if capability is None:
        capability = 12.0 if has_gen5_links(tree) else 8.9
        assume(
            f"the compute capability of the GPU is unknown: {capability:g} is assumed, which decides the speeds that "
            "NCCL's search tries; specify gpu"
        )
    if inputs.cpu is None:
        assume(
            "the processor is unknown: links between sockets count as those of AMD; NCCL's rings and its use of direct "
            "copies may differ; specify cpu"
        )
    version = NEWEST
    logged = debug.version if debug is not None and debug.version else table.library if table is not None else None
    if inputs.nccl_version is not None:
        version = parse_version(inputs.nccl_version)
    elif logged is not None:
        version = logged
    else:
        assume(f"the version of NCCL is unknown: {'.'.join(map(str, NEWEST))} is assumed; specify nccl_version")
    environment = _environment(inputs, debug)
    settings = NcclSettings(
        cpu=Cpu.UNKNOWN if inputs.cpu is None else cpu_of(inputs.cpu),
        capability=capability,
        version=version,
        numa_nodes=_numa(inputs, tree),
        has_peer_access=True,
    )
    if inputs.transport is not None:
        if inputs.transport.lower() not in ("p2p", "shm"):
            raise unknown_name("transport", inputs.transport, ("p2p", "shm"))
        is_direct = inputs.transport.lower() == "p2p"
        if is_direct and (inputs.env or {}).get("NCCL_P2P_DISABLE", "0") != "0":
            raise InputError("is p2p, but NCCL_P2P_DISABLE is set", argument="transport")
        settings = replace(settings, has_peer_access=is_direct, p2p_level=PathType.SYS if is_direct else None)
    elif (
        gpu is not None
        and not gpu_model(gpu).has_stock_peer_access
        and not _is_direct_anywhere(debug, inputs, environment)
    ):
        settings = replace(settings, has_peer_access=False)
        assume(
            f"the unmodified driver of {gpu} permits no direct copies: all hops go through host memory; with a "
            "modified driver specify transport p2p, or measured pairs"
        )
    elif tree.staged_pairs and not _is_direct_anywhere(debug, inputs, environment):
        names = tree.accelerator_names
        if set(tree.staged_pairs) >= set(pairs_without_link(names, tree.peer_links)):
            settings = replace(settings, has_peer_access=False)
            assume("the topology has no peer access between its GPUs: all hops go through host memory")
    return with_environment(settings, environment), warnings


def _environment(inputs: CollectiveInputs, debug: NcclLog | None) -> dict[str, str]:
    """Return the settings of a log, and those of the user above them."""
    return {**(debug.environment if debug is not None else {}), **(inputs.env or {})}


def _is_direct_anywhere(debug: NcclLog | None, inputs: CollectiveInputs, environment: Mapping[str, str]) -> bool:
    """Return whether an input shows direct copies: measured pairs, hops of a log, or a setting that needs them."""
    in_log = debug is not None and any(debug.uses_p2p.values())
    return in_log or inputs.measurements is not None or "NCCL_P2P_LEVEL" in environment


def _numa(inputs: CollectiveInputs, tree: PcieTree) -> tuple[int, ...] | None:
    """Return the NUMA node of each rank; None for one per socket of the topology."""
    count = len(tree.accelerator_names) if inputs.ranks is None else len(inputs.ranks)
    if inputs.numa is None:
        is_single = inputs.cpu is not None and any(words in inputs.cpu.lower() for words in _ONE_SOCKET)
        return (0,) * count if is_single else None
    nodes = tuple(inputs.numa)
    # One number stands for all ranks.
    return nodes * count if len(nodes) == 1 else nodes


def _refuses_direct_copies(machine: CollectiveMachine, transports: Mapping[tuple[int, int], Transport]) -> bool:
    """Return whether a log sends all hops through host memory although NCCL's rule permits direct copies for some.

    Then a setting or the driver prevents direct copies between all pairs.
    """
    return all(transport is Transport.SHM for transport in transports.values()) and any(
        machine.nccl.direct_type(*pair) <= machine.nccl.farthest_p2p for pair in transports
    )


def _plan(machine: CollectiveMachine, inputs: CollectiveInputs, debug: NcclLog | None) -> Plan:
    """Return the plan from a graph file, a log, or the emulated search."""
    if inputs.graph_file is not None:
        graph = read_graph(inputs.graph_file)
        try:
            return nccl_plan(machine, rings=graph, source=f"graph file {inputs.graph_file}")
        except InputError as error:
            if error.argument != "order":
                raise
            raise InputError(f"has an order that {error.reason}", path=Path(inputs.graph_file)) from error
    if debug is None:
        return nccl_plan(machine, transports=_staged_hops(machine, inputs, debug))
    if debug.nodes > 1:
        raise InputError(
            f"is of {debug.nodes} hosts, expected one: forecasts are for the GPUs of one host", path=inputs.log
        )
    if debug.ranks is not None and debug.ranks != len(machine.ranks):
        raise InputError(
            f"has {debug.ranks} ranks, expected {len(machine.ranks)} as in the topology; specify ranks, the GPU "
            "of each",
            path=inputs.log,
        )
    transports = {
        pair: Transport.P2P if is_direct else Transport.SHM
        for pair, is_direct in debug.uses_p2p.items()
        if max(pair) < len(machine.ranks)
    } or _staged_hops(machine, inputs, debug)
    if _refuses_direct_copies(machine, transports):
        pairs = itertools.permutations(range(len(machine.ranks)), 2)
        transports = dict.fromkeys(pairs, Transport.SHM)
    rings = debug.rings()
    if rings is None and debug.orders:
        # Rings without speeds: NCCL's cost table needs those of the emulated search.
        emulated = nccl_plan(machine).rings
        orders = tuple(order for _, order in sorted(debug.orders.items()))[: emulated.channels] or emulated.orders
        rings = SearchGraph(orders, emulated.gb_per_s, emulated.type, emulated.is_fallback, len(set(orders)) == 1)
    source = "log" if rings is not None else "emulated search"
    return nccl_plan(machine, rings=rings, channels=debug.coll_channels, transports=transports, source=source)


def _staged_hops(
    machine: CollectiveMachine, inputs: CollectiveInputs, debug: NcclLog | None
) -> dict[tuple[int, int], Transport]:
    """Return the hops without peer access in the topology, unless another input shows direct copies."""
    if inputs.transport is not None or _is_direct_anywhere(debug, inputs, _environment(inputs, debug)):
        return {}
    place = {name: rank for rank, name in enumerate(machine.ranks)}
    return {
        (place[source], place[target]): Transport.SHM
        for source, target in machine.tree.staged_pairs
        if source in place and target in place
    }


def _choices(debug: NcclLog | None, operation: Operation) -> dict[int, Choice]:
    """Return the choices that a log states for an operation."""
    if debug is None:
        return {}
    name = operation.replace("_", "")
    return {
        choice.size_bytes: (Algorithm(choice.algorithm), Protocol(choice.protocol))
        for choice in debug.choices
        if choice.operation.lower() in (name, "")
        and choice.algorithm in (Algorithm.RING, Algorithm.TREE)
        and choice.protocol in set(Protocol)
    }
