"""Registry of all formats that are read: a reader is one module, one example and one line here."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.sources import (
    amd_smi_topology,
    amd_smi_xgmi,
    bandwidth_test,
    benchpress,
    bonding,
    bus_grind,
    cluster_yaml,
    dcgmi,
    disk_space,
    fabric_manager,
    fabtests,
    fi_info,
    framework_peers,
    gpu_burn,
    host_pairs,
    hwloc_xml,
    iblinkinfo,
    ibnetdiscover,
    ibstat,
    imb,
    interfaces,
    iperf,
    kernel_log,
    kernel_modules,
    lscpu,
    lspci,
    lspci_lines,
    mpi_errors,
    mpi_operations,
    nccl_graph_lines,
    nccl_log,
    nccl_tests,
    nccl_xml,
    netgauge,
    nixlbench,
    nodecomm,
    nvbandwidth,
    nvidia_smi,
    nvidia_smi_csv,
    nvidia_smi_dmon,
    nvidia_smi_p2p,
    nvidia_smi_topo,
    nvidia_smi_xml,
    opainfo,
    osu,
    p2p_bandwidth_latency,
    p2pmark,
    perftest,
    port_counters,
    process_pins,
    report_sentences,
    rocm_bandwidth_test,
    rocm_smi,
    rocm_smi_all,
    rvs,
    serving_logs,
    show_gids,
    simple_p2p,
    slurm_topology,
    sysfs_links,
    tables,
    tcp_tests,
    topology_yaml,
    training_errors,
    transfer_bench,
    ucx_info,
    ucx_perftest,
    ulimit,
)
from fabricast.sources.text import Format, Reading, Text

#: Formats in the order in which their blocks are read. The first description of a machine determines its tree.
FORMATS: tuple[Format, ...] = (
    topology_yaml.FORMAT,
    cluster_yaml.FORMAT,
    hwloc_xml.FORMAT,
    nccl_xml.FORMAT,
    *lspci.FORMATS,
    nccl_graph_lines.FORMAT,
    nvidia_smi_topo.FORMAT,
    rocm_smi.FORMAT,
    amd_smi_topology.FORMAT,
    nvidia_smi_p2p.FORMAT,
    nvidia_smi.FORMAT,
    nvidia_smi_xml.FORMAT,
    nvidia_smi_csv.FORMAT,
    nvidia_smi_dmon.FORMAT,
    lspci_lines.FORMAT,
    sysfs_links.FORMAT,
    dcgmi.FORMAT,
    amd_smi_xgmi.FORMAT,
    rocm_smi_all.FORMAT,
    gpu_burn.FORMAT,
    fabric_manager.FORMAT,
    kernel_log.FORMAT,
    ibstat.FORMAT,
    show_gids.FORMAT,
    ulimit.FORMAT,
    disk_space.FORMAT,
    kernel_modules.FORMAT,
    ucx_info.FORMAT,
    fi_info.FORMAT,
    port_counters.FORMAT,
    process_pins.FORMAT,
    serving_logs.FORMAT,
    opainfo.FORMAT,
    bonding.FORMAT,
    interfaces.FORMAT,
    lscpu.FORMAT,
    iperf.FORMAT,
    tcp_tests.FORMAT,
    iblinkinfo.FORMAT,
    rocm_bandwidth_test.FORMAT,
    rvs.FORMAT,
    transfer_bench.FORMAT,
    p2pmark.FORMAT,
    nvbandwidth.FORMAT,
    p2p_bandwidth_latency.FORMAT,
    bandwidth_test.FORMAT,
    bus_grind.FORMAT,
    simple_p2p.FORMAT,
    framework_peers.FORMAT,
    nccl_tests.FORMAT,
    nccl_log.FORMAT,
    mpi_errors.FORMAT,
    training_errors.FORMAT,
    netgauge.FORMAT,
    osu.FORMAT,
    imb.FORMAT,
    mpi_operations.FORMAT,
    benchpress.FORMAT,
    nodecomm.FORMAT,
    ucx_perftest.FORMAT,
    perftest.FORMAT,
    fabtests.FORMAT,
    nixlbench.FORMAT,
    report_sentences.FORMAT,
    host_pairs.FORMAT,
    slurm_topology.FORMAT,
    ibnetdiscover.FORMAT,
    *tables.FORMATS,
)


#: Group of entry points by which other packages add formats.
ENTRY_POINTS = "fabricast.formats"


@cache
def all_formats() -> tuple[Format, ...]:
    """Return the formats of this package, and those that other packages declare as entry points, which come last.

    Raises
    ------
    InputError
        If an entry point cannot be loaded or is no `Format`.
    """
    added = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found = point.load()
        except Exception as error:
            # A package of the user can raise anything.
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"entry point {point.name} = {point.value} cannot be loaded ({reason})") from error
        if not isinstance(found, Format):
            raise InputError(f"entry point {point.name} = {point.value} is {type(found).__name__}, expected a Format")
        added.append(_guarded(found, point.value))
    return (*FORMATS, *added)


def _guarded(found: Format, name: str) -> Format:
    """Return a format of another package whose unexpected errors are problems of the file."""

    def problem(error: Exception, text: Text) -> InputError:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return text.error(f"the reader {name} of another package failed: {reason}")

    def recognises(text: Text) -> bool:
        try:
            return bool(found.recognises(text))
        except InputError:
            raise
        except Exception as error:
            raise problem(error, text) from error

    def read(text: Text) -> Iterator[Reading]:
        try:
            yield from found.read(text)
        except InputError:
            raise
        except Exception as error:
            raise problem(error, text) from error

    return replace(found, recognises=recognises, read=read)


#: Most programs of a list in words; the documentation lists all.
_MOST_NAMED = 12


def names_of(*contents: Content) -> str:
    """Return the names of the formats with some contents, as a list in words.

    >>> names_of(Content.NCCL_LOG, Content.COLLECTIVES)
    'nccl-tests or NCCL_DEBUG=INFO'
    """
    names = list(dict.fromkeys(one.program for one in FORMATS if one.content in contents))
    if len(names) > _MOST_NAMED:
        names = [*names[:_MOST_NAMED], f"one of {len(names) - _MOST_NAMED} other programs"]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
