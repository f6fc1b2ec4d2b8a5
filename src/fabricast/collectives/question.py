"""Questions about collective operations: ranks, settings and the measured table, and what is assumed otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fabricast.collectives.calibration import StepScale, is_calibration, step_scale
from fabricast.collectives.communicator import Communicator, communicator, has_gen5_links
from fabricast.collectives.model import Choice
from fabricast.collectives.plan import Plan, nccl_plan
from fabricast.collectives.step_rates import Transport
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.facts import Fact, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.machine.addresses import address_warnings, has_addresses, same_address
from fabricast.machine.machine import Machine
from fabricast.nccl.costs import Algorithm, Operation
from fabricast.nccl.graph_files import read_graph
from fabricast.nccl.records import NcclLog, NcclTestsTable, check_bus_bandwidth
from fabricast.nccl.search import SearchGraph, search_rings
from fabricast.nccl.settings import NcclSettings, cpu_of, with_environment
from fabricast.nccl.system import NEWEST, OLDEST, Cpu, PathType, Version, parse_version
from fabricast.pcie.topology.parts import pairs_without_link
from fabricast.pcie.topology.tree import PcieTree

#: Names of the operations.
OPERATIONS = frozenset(map(str, Operation))

#: Words in the name of processors for one socket, all of whose root complexes are one NUMA node by default.
_ONE_SOCKET = ("threadripper", "ryzen")


@dataclass(frozen=True)
class Question:
    """Subject of a forecast, beyond the machine; None if unspecified."""

    #: See `fabricast.collective`.
    ranks: Sequence[str] | None = None
    numa: Sequence[int] | None = None
    nccl_version: str | None = None
    transport: str | None = None
    env: Mapping[str, str] | None = None
    graph_file: Path | str | None = None
    table: Fact | None = None  # Measured table of nccl-tests
    run: Fact | None = None  # Statements of NCCL
    calibration: Fact | None = None  # Measured table of a large all_reduce, if another operation is forecast

    @property
    def measured(self) -> NcclTestsTable | None:
        """Measured table."""
        return None if self.table is None else self.table.value

    @property
    def log(self) -> NcclLog | None:
        """Statements of NCCL."""
        return None if self.run is None else self.run.value


@dataclass(frozen=True)
class Prepared:
    """Communicator, plan and measured table of a forecast."""

    communicator: Communicator  # Ranks with their settings
    plan: Plan  # Rings and transports
    operation: Operation
    log: NcclTestsTable | None  # Measured times
    choices: Mapping[int, Choice]  # Choices that the log states, by size in bytes
    scale: StepScale  # Factor of the rates of steps


def prepare(machine: Machine, operation: Operation, question: Question) -> Prepared:
    """Return the communicator, the plan and the log of a forecast.

    What no input states is assumed, and a warning names the assumption.
    """
    question, rank_warnings = _with_ranks_of(machine.tree, question)
    settings, warnings = _settings(machine, question)
    group = communicator(machine, ranks=question.ranks, settings=settings, warnings=[*warnings, *rank_warnings])
    plan = _plan(group, question)
    group = replace(group, warnings=(*group.warnings, *_numa_warnings(group, plan)))
    table, choices = _checked_table(question, operation), _choices(question, operation)
    return Prepared(group, plan, operation, table, choices, step_scale(group, plan, question.calibration))


def table_of(tables: Sequence[Fact], operation: str | None, number: int | None) -> tuple[Operation, Fact | None]:
    """Return the operation and the measured table of a question: the only fitting one, or that of a number from 1.

    A large all_reduce, which calibrates the forecast of another operation, is no fitting table of it.
    """
    wanted = Operation.of(operation) if operation is not None else _operation(tables)
    if not tables:
        if number is not None:
            raise InputError("is specified, but there is no log with a table", argument="table")
        return wanted, None
    fitting = [table for table in tables if table.value.operation in (wanted, None)]
    path = tables[0].place.path
    if not fitting and number is None and sum(map(is_calibration, tables)) == 1:
        return wanted, None
    if not fitting:
        named = ", ".join(str(table.value.operation) for table in tables)
        raise InputError(f"has tables of {named}, expected {wanted}", path=path)
    if number is not None:
        if not 1 <= number <= len(fitting):
            raise InputError(f"is {number}, expected 1 to {len(fitting)}", argument="table")
        return wanted, fitting[number - 1]
    if len(fitting) > 1:
        if len({table.place.path for table in fitting}) > 1:
            places = ", ".join(str(table.place) for table in fitting)
            text = f"has {len(fitting)} tables of {wanted} ({places}), expected one; choose it by its number (table)"
            raise InputError(text, argument="log")
        lines = ", ".join(str(table.place.line) for table in fitting)
        raise InputError(
            f"has {len(fitting)} tables of {wanted} (lines {lines}), expected one; choose it by its number (table)",
            path=path,
        )
    return wanted, fitting[0]


def _operation(tables: Sequence[Fact]) -> Operation:
    named = list(dict.fromkeys(table.value.operation for table in tables if table.value.operation is not None))
    if len(named) > 1:
        listed = ", ".join(named)
        raise InputError(f"is unspecified, but the log has tables of {listed}; choose one", argument="operation")
    return named[0] if named else Operation.ALL_REDUCE


def _checked_table(question: Question, operation: Operation) -> NcclTestsTable | None:
    """Return the measured table; the bandwidths of one without an operation must be those of the wanted one."""
    table = question.measured
    if table is None or table.operation is not None or table.ranks is None or question.table is None:
        return table
    try:
        check_bus_bandwidth(table.rows, operation, table.ranks)
    except InputError as error:
        raise InputError(error.reason, path=question.table.place.path, line=error.line) from error
    return replace(table, operation=operation)


def _with_ranks_of(tree: PcieTree, question: Question) -> tuple[Question, list[CodedWarning]]:
    """Return the question with the GPUs of a log of fewer ranks than GPUs: by PCI address, or else by device number."""
    names, table = tree.accelerator_names, question.measured
    if question.ranks is not None or table is None or table.hosts > 1 or not 0 < len(table.bus_ids) <= len(names):
        return question, []
    if len(table.bus_ids) == len(names):
        numbered = {str(rank): bus for rank, bus in enumerate(table.bus_ids)}
        return question, list(address_warnings(tree, numbered, of="the log"))
    matches = [[name for name in names if same_address(tree.vertex(name).label, bus)] for bus in table.bus_ids]
    chosen = [found[0] for found in matches if len(found) == 1]
    if len(set(chosen)) == len(table.bus_ids):
        return replace(question, ranks=chosen), []
    if len(set(table.devices)) < len(table.devices) or max(table.devices) >= len(names):
        return question, []
    ranks = [names[device] for device in table.devices]
    text = (
        f"the log has {len(ranks)} of {len(names)} GPUs: {' '.join(ranks)} are assumed, by their device numbers, which "
        "CUDA_VISIBLE_DEVICES changes; specify ranks ('fabricast collective'), or describe the machine with PCI "
        "addresses ('lspci -vv' or 'nvidia-smi')"
    )
    if has_addresses(tree):
        text = (
            f"no GPU of the log ({table.bus_ids[0]}, ...) has a PCI address of '{tree.name}': GPUs {' '.join(ranks)} "
            "are assumed, by their device numbers; describe the machine of the log, or specify ranks"
        )
    return replace(question, ranks=ranks), [CodedWarning(WarningCode.RANKS_ASSUMED, text)]


def _settings(machine: Machine, question: Question) -> tuple[NcclSettings, list[CodedWarning]]:
    """Return the settings of NCCL with warnings about assumptions."""
    warnings: list[CodedWarning] = []

    def assume(text: str) -> None:
        warnings.append(CodedWarning(WarningCode.NCCL_SETTING_ASSUMED, text))

    tree, gpu, cpu = machine.tree, machine.gpu, machine.cpu
    debug, table = question.log, question.measured
    if gpu is not None and not is_known_gpu(gpu):
        assume(f"the GPU model '{gpu}' of the log is unknown; of RCCL on AMD GPUs, the choices of NCCL are assumed")
        gpu = None
    capability = machine.capability if gpu is None else gpu_model(gpu).capability
    if gpu is not None and capability is None:
        assume(f"{gpu} uses RCCL: the choices of NCCL are assumed, although those of RCCL may differ")
    if capability is None:
        capability = 12.0 if has_gen5_links(tree) else 8.9
        assume(
            f"the compute capability of the GPU is unknown: {capability:g} is assumed, which decides the speeds that "
            "NCCL's search tries; specify gpu"
        )
    if cpu is None:
        assume(
            "the processor is unknown: links between sockets count as those of AMD; NCCL's rings and its use of direct "
            "copies may differ; specify cpu"
        )
    version = NEWEST
    logged = debug.version if debug is not None and debug.version else table.library if table is not None else None
    if question.nccl_version is not None:
        version = parse_version(question.nccl_version)
    elif logged is not None:
        version = _emulated(logged)
    else:
        assume(f"the version of NCCL is unknown: {'.'.join(map(str, NEWEST))} is assumed; specify nccl_version")
    environment = _environment(question)
    settings = NcclSettings(
        cpu=Cpu.UNKNOWN if cpu is None else cpu_of(cpu),
        capability=capability,
        version=version,
        numa_nodes=_numa(machine, question),
        has_peer_access=True,
    )
    if question.transport is not None:
        if question.transport.lower() not in ("p2p", "shm"):
            raise unknown_name("transport", question.transport, ("p2p", "shm"))
        is_direct = question.transport.lower() == "p2p"
        if is_direct and (question.env or {}).get("NCCL_P2P_DISABLE", "0") != "0":
            raise InputError("is p2p, but NCCL_P2P_DISABLE is set", argument="transport")
        disabled_by = "" if is_direct else "transport=shm"
        level = PathType.SYS if is_direct else None
        settings = replace(settings, has_peer_access=is_direct, p2p_level=level, disabled_by=disabled_by)
    elif gpu is not None and not gpu_model(gpu).has_stock_peer_access and not _is_direct_anywhere(machine, question):
        settings = replace(settings, has_peer_access=False)
        assume(
            f"the unmodified driver of {gpu} permits no direct copies: all hops go through host memory; with a "
            "modified driver specify transport p2p, or measured pairs"
        )
    elif tree.staged_pairs and not _is_direct_anywhere(machine, question):
        names = tree.accelerator_names
        if set(tree.staged_pairs) >= set(pairs_without_link(names, tree.peer_links)):
            settings = replace(settings, has_peer_access=False)
            assume("the topology has no peer access between its GPUs: all hops go through host memory")
    return with_environment(settings, environment), warnings


def _emulated(version: Version) -> Version:
    """Return a version of a log whose choices are emulated."""
    text = ".".join(map(str, version))
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST[:2]))
        raise InputError(f"NCCL {text} of the log is older than {oldest}: its choices of algorithm are not emulated")
    return parse_version(text)


def _environment(question: Question) -> dict[str, str]:
    """Return the settings of a log, and those of the user above them."""
    return {**(question.log.environment if question.log is not None else {}), **(question.env or {})}


def _is_direct_anywhere(machine: Machine, question: Question) -> bool:
    """Return whether an input shows direct copies: measured pairs, hops of a log, or a setting that needs them.

    No setting changes what a file states about peer access.
    """
    in_log = question.log is not None and any(question.log.uses_p2p.values())
    is_denied = any(fact.value for fact in machine.facts.of(Quantity.PEER_ACCESS))
    is_set = "NCCL_P2P_LEVEL" in _environment(question) and not is_denied
    return in_log or machine.has_direct_copies or is_set


def _numa(machine: Machine, question: Question) -> tuple[int, ...] | None:
    """Return the NUMA node of each rank; None for one per socket of the topology."""
    count = len(machine.tree.accelerator_names) if question.ranks is None else len(question.ranks)
    if question.numa is None:
        cpu = machine.options.cpu
        is_single = cpu is not None and any(words in cpu.lower() for words in _ONE_SOCKET)
        return (0,) * count if is_single else None
    nodes = tuple(question.numa)
    # One number stands for all ranks.
    return nodes * count if len(nodes) == 1 else nodes


def _numa_warnings(group: Communicator, plan: Plan) -> list[CodedWarning]:
    """Return a warning if NCCL's search finds rings only with the assumed NUMA nodes.

    NCCL assumes less bandwidth between NUMA nodes of AMD processors than its search tries on the newest GPUs.
    """
    settings = group.settings
    if settings.numa_nodes is not None or settings.cpu is not Cpu.AMD or plan.rings.is_fallback or plan.is_stated:
        return []
    apart = replace(group, settings=replace(settings, numa_nodes=tuple(range(len(group.ranks)))))
    if not search_rings(apart.nccl).is_fallback:
        return []
    text = (
        "one NUMA node per socket is assumed (NPS1): with one per GPU (NPS4), NCCL's search finds no ring and falls "
        "back to one slow channel; specify numa, the NUMA node of each GPU ('nvidia-smi topo -m' lists them)"
    )
    return [CodedWarning(WarningCode.NCCL_SETTING_ASSUMED, text)]


def _refuses_direct_copies(group: Communicator, transports: Mapping[tuple[int, int], Transport]) -> bool:
    """Return whether a log sends all hops through host memory although NCCL's rule permits direct copies for some.

    Then a setting or the driver prevents direct copies between all pairs.
    """
    return all(transport is Transport.SHM for transport in transports.values()) and any(
        group.nccl.direct_type(*pair) <= group.nccl.farthest_p2p for pair in transports
    )


def _plan(group: Communicator, question: Question) -> Plan:
    """Return the plan from a graph file, a log, or the emulated search."""
    debug, path = question.log, None if question.run is None else question.run.place.path
    if question.graph_file is not None:
        graph = read_graph(question.graph_file)
        try:
            return nccl_plan(group, rings=graph, source=f"graph file {question.graph_file}")
        except InputError as error:
            if error.argument != "order":
                raise
            raise InputError(f"has an order that {error.reason}", path=Path(question.graph_file)) from error
    if debug is None:
        return nccl_plan(group, transports=_staged_hops(group, question))
    if debug.nodes > 1:
        raise InputError(
            f"is of {debug.nodes} hosts, expected one; 'fabricast diagnose' compares it with public clusters", path=path
        )
    if debug.ranks is not None and debug.ranks != len(group.ranks):
        raise InputError(
            f"has {debug.ranks} ranks, expected {len(group.ranks)} as in the topology; specify ranks, the GPU of each",
            path=path,
        )
    transports = {
        pair: Transport.P2P if is_direct else Transport.SHM
        for pair, is_direct in debug.uses_p2p.items()
        if max(pair) < len(group.ranks)
    } or _staged_hops(group, question)
    if _refuses_direct_copies(group, transports):
        pairs = itertools.permutations(range(len(group.ranks)), 2)
        transports = dict.fromkeys(pairs, Transport.SHM)
    rings = debug.rings()
    if rings is None and debug.orders:
        # Rings without speeds: NCCL's cost table needs those of the emulated search.
        emulated = nccl_plan(group).rings
        orders = tuple(order for _, order in sorted(debug.orders.items()))[: emulated.channels] or emulated.orders
        rings = SearchGraph(orders, emulated.gb_per_s, emulated.type, emulated.is_fallback, len(set(orders)) == 1)
    stated = {} if rings is None else {"source": "log"}
    return nccl_plan(group, rings=rings, channels=debug.coll_channels, transports=transports, **stated)


def _staged_hops(group: Communicator, question: Question) -> dict[tuple[int, int], Transport]:
    """Return the hops without peer access in the topology, unless another input shows direct copies."""
    if question.transport is not None or _is_direct_anywhere(group.machine, question):
        return {}
    place = {name: rank for rank, name in enumerate(group.ranks)}
    return {
        (place[source], place[target]): Transport.SHM
        for source, target in group.tree.staged_pairs
        if source in place and target in place
    }


def _choices(question: Question, operation: Operation) -> dict[int, Choice]:
    """Return the choices that a log states for an operation, of the algorithms over PCIe."""
    stated = {} if question.log is None else question.log.choices_of(operation)
    return {size: pair for size, pair in stated.items() if pair[0] in (Algorithm.RING, Algorithm.TREE)}
