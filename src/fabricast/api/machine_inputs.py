"""Machines as arguments: topologies, names and files, with measurements and options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Facts
from fabricast.core.quantities import to_bytes_per_s
from fabricast.machine.build import MACHINE_CONTENTS, check_usable, load_facts, machine_from, machine_of_tree
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.pcie.topology.tree import PcieTree
from fabricast.sources.reading import read, with_stated_models
from fabricast.sources.tables import COPIES, GRAPHS

Files = str | Path | Sequence[str | Path]
MachineLike = Machine | PcieTree | Files


def paths_of(files: Files | None) -> list[str]:
    """Return the names of one or several files."""
    if files is None:
        return []
    return [str(files)] if isinstance(files, str | Path) else [str(one) for one in files]


def machine_of(
    machine: MachineLike, *, measurements: Files | None = None, options: MachineOptions | None = None
) -> Machine:
    """Return the machine of a topology, a name, or files, with the measurements of further files."""
    more = paths_of(measurements)
    if isinstance(machine, Machine):
        if not more and options in (None, machine.options):
            return machine
        facts = with_stated_models(Facts((*machine.facts.files, *_facts(more).files)))
        return machine_of_tree(machine.tree, facts, options or machine.options)
    if isinstance(machine, PcieTree):
        return machine_of_tree(machine, _facts(more), options)
    return machine_from(load_facts([*paths_of(machine), *more], *MACHINE_CONTENTS), options)


def tree_of(machine: MachineLike) -> PcieTree:
    """Return the topology of a machine, a name, or files."""
    return machine if isinstance(machine, PcieTree) else machine_of(machine).tree


class GraphFile(NamedTuple):
    """File of congestion graphs: its name, and its text if it was read."""

    path: str
    text: str | None


def open_files(
    files: Sequence[str | Path], *, with_graphs: bool = False, **options: Any
) -> tuple[Machine, GraphFile | None]:
    """Return the machine of files in any order, and the file of congestion graphs among them.

    `options` are those of `MachineOptions`.
    """
    facts = read(files, table=GRAPHS if with_graphs else COPIES)
    contents = (*MACHINE_CONTENTS, Content.GRAPHS) if with_graphs else MACHINE_CONTENTS
    check_usable(facts, *contents)
    tables = [fact for block in facts.blocks_of(Content.GRAPHS) for fact in block.facts]
    if len(tables) > 1:
        names = " and ".join(fact.place.path for fact in tables[:2])
        raise InputError(f"contain several files of graphs ({names}), expected one", argument="files")
    machine = machine_from(facts, MachineOptions(**options))
    return machine, GraphFile(*tables[0].value) if tables else None


def _facts(paths: Sequence[str]) -> Facts:
    return load_facts(paths, *MACHINE_CONTENTS) if paths else Facts()


@with_checked_types
def load_machine(
    files: str | Path | Sequence[str | Path],
    *,
    gpu: str | None = None,
    link: str | None = None,
    include_display: bool = False,
    network_cards: bool = False,
    program: str = "independent",
    system: str | None = None,
    bandwidth: float | str | None = None,
) -> Machine:
    """Return the machine that files describe and measure: topology, rates, limits and settings.

    Parameters
    ----------
    files : str, Path or sequence of these
        Name of a built-in topology, and files in any order: descriptions of the machine, measured copies, logs of
        nccl-tests and NCCL. ``-`` is standard input.
    gpu : str, optional
        GPU model such as ``"RTX 4090"``, if no file names it.
    link : str, optional
        Link of each GPU such as ``"gen4x16"``, if no file states it.
    include_display : bool, default False
        Whether NVIDIA and AMD graphics cards (class 0300) are included as accelerators.
    network_cards : bool, default False
        Whether network cards are endpoints.
    program : str, default 'independent'
        Copy program of measured rows that name none.
    system : str, optional
        Machine of a table of several machines.
    bandwidth : float or str, optional
        Rate of an isolated copy in bytes/s, or text such as ``"24 GiB/s"``, if none was measured.

    Returns
    -------
    Machine
        ``tree``: topology. ``rates``: rates and limits with their sources. ``graphs``: measured copies. ``warnings``:
        assumptions and contradictions.

    Raises
    ------
    InputError
        If nothing of a file can be used, or no file describes a topology.

    Examples
    --------
    >>> machine = load_machine("storm8")
    >>> len(machine.tree.endpoint_names), machine.is_measured
    (8, False)
    """
    options = MachineOptions(
        gpu=gpu,
        link=link,
        include_display=include_display,
        network_cards=network_cards,
        program=program,
        system=system,
        bandwidth_bytes_per_s=None if bandwidth is None else to_bytes_per_s(bandwidth),
    )
    return machine_of(files, options=options)


@with_checked_types
def load_topology(
    source: str | Path | Sequence[str | Path], *, include_display: bool = False, network_cards: bool = False
) -> PcieTree:
    """Return a built-in topology, or read a topology from files.

    Parameters
    ----------
    source : str, Path or sequence of these
        Built-in name such as ``"storm8"``, or files that describe one machine: YAML, hwloc or NCCL XML, output of
        nvidia-smi, rocm-smi, lspci or NCCL.
    include_display : bool, default False
        Whether NVIDIA and AMD graphics cards (class 0300) are included as accelerators.
    network_cards : bool, default False
        Whether network cards are endpoints.

    Returns
    -------
    PcieTree
        Topology. Notebooks display it as a drawing.

    Raises
    ------
    InputError
        If the topology is unknown or a file is invalid.

    Examples
    --------
    >>> load_topology("storm8").endpoint_names
    ('0', '1', '2', '3', '4', '5', '6', '7')
    """
    options = MachineOptions(include_display=include_display, network_cards=network_cards)
    return machine_of(source, options=options).tree
