"""Expected performance of NCCL's collective operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path

from fabricast.api.machine_inputs import Files, MachineLike, machine_of, paths_of
from fabricast.collectives.calibration import is_calibration
from fabricast.collectives.communicator import rings_pass_pcie
from fabricast.collectives.diagnosis import diagnose_collective
from fabricast.collectives.forecast import DEFAULT_SIZES, CollectiveForecast, forecast_prepared
from fabricast.collectives.question import OPERATIONS, Question, prepare, table_of
from fabricast.collectives.settings_files import graph_file_text, tuner_file_text
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.quantities import increasing_sizes
from fabricast.diagnosis.bundle import Diagnosis, diagnose_facts
from fabricast.diagnosis.cluster_forecasts import with_cards
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.pcie.topology.builtin import node_names
from fabricast.sources.reading import read

__all__ = [
    "OPERATIONS",
    "Diagnosis",
    "collective",
    "diagnose",
    "diagnose_collective",
    "graph_file_text",
    "rings_pass_pcie",
    "tuner_file_text",
]


@with_checked_types
def collective(
    tree: MachineLike,
    operation: str | None = None,
    *,
    sizes: Sequence[float | str] | str | None = None,
    measurements: Files | None = None,
    system: str | None = None,
    log: Files | None = None,
    ranks: Sequence[int | str] | None = None,
    cpu: str | None = None,
    gpu: str | None = None,
    numa: Sequence[int] | int | None = None,
    nccl_version: str | None = None,
    transport: str | None = None,
    env: Mapping[str, str] | None = None,
    graph_file: str | Path | None = None,
    table: int | None = None,
) -> CollectiveForecast:
    """Forecast the times of a collective operation of NCCL on GPUs that are connected by PCIe.

    NCCL's choice of rings, transports, algorithm and protocol is emulated or read from a log. The rate of each step is
    that of a congestion graph in the recommended PCIe model.

    Parameters
    ----------
    tree : PcieTree, Machine, str, Path or sequence of these
        Topology or machine, its name, or files that describe and measure it, logs among them.
    operation : str, optional
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv; by default that of the log,
        otherwise all_reduce.
    sizes : sequence of float or str, or str, optional
        Sizes in bytes or as text ("8 B, 1 MiB", "1M:1G"), as nccl-tests counts them; by default 256 B to 256 MiB, or
        those of the log.
    measurements : str, Path or sequence of these, optional
        Further files with measured copies of this machine.
    system : str, optional
        Use only measurements of this machine.
    log : str, Path or sequence of these, optional
        Log of nccl-tests, with or without lines of NCCL_DEBUG=INFO, to compare. An all_reduce of 64 MiB or more
        calibrates the forecast of another operation.
    ranks : sequence of int or str, optional
        Endpoint of each rank in the order of PCI bus ids; by default all GPUs.
    cpu, gpu : str, optional
        Processor and GPU, such as ``"AMD EPYC"`` and ``"RTX 4090"``.
    numa : int or sequence of int, optional
        NUMA node of each rank; by default one per socket.
    nccl_version : str, optional
        Version of NCCL, such as ``"2.27.5"``; by default that of the log, otherwise 2.30.7.
    transport : {'p2p', 'shm'}, optional
        Transport of all hops: direct copies or host memory; by default NCCL's rule.
    env : mapping of str to str, optional
        Environment variables of NCCL.
    graph_file : str or Path, optional
        Rings as in NCCL_GRAPH_FILE.
    table : int, optional
        Number of the table in the log, counted from 1.

    Returns
    -------
    CollectiveForecast
        ``table``: one row per size with time, bandwidths, NCCL's choice, what limits it and the best choice.
        ``bottleneck``, ``shared_by``, ``transports``, ``orders``: the step of the ring. ``warnings``: assumptions.
        `fabricast.diagnose_collective` lists causes of lost time with settings to try.

    Raises
    ------
    InputError
        If an input is invalid, ranks differ between topology and log, or GPUs are connected by NVLink.

    References
    ----------
    NVIDIA/nccl 5067397c (v2.30.7); NVIDIA/nccl-tests a0b82b2. Constants of the time model are fitted on public
    measurements (config/published/collectives).

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("crossed_virtual_switches")
    >>> forecast = fc.collective(tree, sizes=["64 MiB"], gpu="RTX PRO 6000", cpu="amd", transport="p2p")
    >>> row = forecast.table.iloc[0]
    >>> row["algorithm"], row["protocol"], bool(row["bus_gb_per_s"] < 57)
    ('ring', 'simple', True)
    """
    if isinstance(tree, str) and tree in node_names():
        raise InputError(f"'{tree}' is a node with direct links, expected fabricast.cluster_collective for it")
    options = MachineOptions(gpu=gpu, cpu=cpu, system=system)
    machine = machine_of(tree, measurements=[*paths_of(measurements), *paths_of(log)], options=_options(tree, options))
    wanted, measured = table_of(machine.tables, operation, table)
    if sizes is not None and measured is not None:
        raise InputError("excludes log, which has sizes", argument="sizes")
    others = [] if measured is not None else [one for one in machine.tables if is_calibration(one)]
    names = machine.tree.accelerator_names
    question = Question(
        ranks=None if ranks is None else [_rank(rank, names) for rank in ranks],
        numa=(int(numa),) if isinstance(numa, int | Integral) else None if numa is None else [*numa],
        nccl_version=nccl_version,
        transport=transport,
        env=env,
        graph_file=graph_file,
        table=measured,
        run=next(iter(machine.nccl_runs), None),
        calibration=next(iter(others), None),
    )
    return forecast_prepared(
        prepare(machine, wanted, question), DEFAULT_SIZES if sizes is None else increasing_sizes(sizes)
    )


def _options(machine: MachineLike, options: MachineOptions) -> MachineOptions | None:
    """Return the options of a call; a machine keeps those it has if the call has none."""
    return None if isinstance(machine, Machine) and options == MachineOptions() else options


def _rank(rank: int | str, names: Sequence[str]) -> str:
    """Return the endpoint of a rank: a name, or a number in the order of the topology."""
    if isinstance(rank, str) and rank in names:
        return rank
    text = str(rank).lower().removeprefix("gpu")
    if text in names:
        return text
    if text.isascii() and text.isdigit() and int(text) < len(names):
        return names[int(text)]
    raise InputError(f"contains '{rank}', expected GPUs such as {', '.join(names[:8])}", argument="ranks")


@with_checked_types
def diagnose(
    files: Files,
    *more: str | Path,
    gpu: str | None = None,
    cpu: str | None = None,
    link: str | None = None,
    nic: str | None = None,
    include_display: bool = False,
) -> Diagnosis:
    """Name the causes of lost time on a machine, from the files of a bug report.

    Every measured pair and collective operation is compared with its expectation.

    Parameters
    ----------
    files : str, Path or sequence of these
        Descriptions of the machine, measured copies, and logs of nccl-tests and NCCL, in any combination; ``-`` is
        standard input. One file may hold the output of several programs.
    *more : str or Path
        Further files.
    gpu, cpu, link : str, optional
        GPU model, processor, and link of each GPU such as ``"gen4x16"``, if no file states them.
    nic : str, optional
        Network cards of each node of a cluster, such as ``"8x400"`` (Gbit/s), if no file states them.
    include_display : bool, default False
        Whether NVIDIA and AMD graphics cards (class 0300) are included as accelerators.

    Returns
    -------
    Diagnosis
        ``verdict``: the answer in one line. ``findings``: causes with evidence and remedy; what files state precedes
        measurements, and these the model; within each, the most costly first. ``statements`` and ``notes``: what files
        state, and what explains the numbers. ``sources``: what was recognised in each file. ``warnings``: assumptions.

    Raises
    ------
    InputError
        If no file can be used.
    """
    paths = [*paths_of(files), *map(str, more)]
    if not paths:
        raise InputError("is empty, expected at least one file", argument="files")
    options = MachineOptions(gpu=gpu, cpu=cpu, link=link, include_display=include_display, network_cards=True)
    facts = read(paths)
    return diagnose_facts(facts if nic is None else with_cards(facts, nic), options)
