"""Findings in the logs of nccl-tests and NCCL that need no forecast."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.diagnosis.evidence import ACCESS, FIRST, Evidence, place
from fabricast.diagnosis.sources import Source
from fabricast.nccl.tests_output import NcclTestsTable

__all__ = ["later_wrong_results", "log_findings", "wrong_results"]

_STATES_NETWORK = re.compile(r"via NET")
_STATES_NO_ACCESS = re.compile(r"P2P is disabled|via SHM")
_P2P_SETTINGS = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")
_WRONG = re.compile(r"Out of bounds values : [1-9]\d* FAILED")
_CHECK_DIRECT_COPIES = (
    "test with NCCL_P2P_DISABLE=1, then check IOMMU, ACS, driver and 'nvidia-smi -q' (errors, retired pages)"
)


def wrong_results(source: Source, table: NcclTestsTable) -> Iterator[Evidence]:
    """Return rows of nccl-tests whose results are wrong."""
    if table.wrong_lines:
        yield Evidence(
            "wrong_results",
            f"{len(table.wrong_lines)} of {len(table.rows) + len(table.excluded)} sizes have wrong results: direct "
            "copies or links damage data",
            f"{source.path}:{table.wrong_lines[0]}",
            _CHECK_DIRECT_COPIES,
            FIRST,
        )


def later_wrong_results(source: Source) -> Iterator[Evidence]:
    """Return wrong results after the tables that are read."""
    if source.more_tables and not any(table.wrong_lines for table in source.tables) and _WRONG.search(source.text):
        yield Evidence(
            "wrong_results",
            "a table after those that are compared has wrong results",
            place(source, _WRONG),
            _CHECK_DIRECT_COPIES,
            FIRST,
        )


def log_findings(source: Source) -> Iterator[Evidence]:
    """Return what NCCL states about direct copies and its search."""
    log = source.log
    if log is None:
        return
    over_network = [pair for pair, via in log.transports.items() if via.startswith("NET")]
    if over_network and log.nodes == 1:
        one, other = over_network[0]
        yield Evidence(
            "network_in_host",
            f"NCCL uses the network for {len(over_network)} hops within one host (for example {one} to {other})",
            place(source, _STATES_NETWORK),
            "permit shared memory: unset NCCL_SHM_DISABLE and NCCL_P2P_DISABLE; in a container --ipc=host or a larger "
            "--shm-size",
            FIRST,
        )
    if log.disabled_pairs:
        one, other = log.disabled_pairs[0]
        yield Evidence(
            "no_peer_access",
            f"NCCL states that direct copies are disabled between {len(log.disabled_pairs)} pairs (for example {one} "
            f"and {other}): data pass through host memory",
            place(source, _STATES_NO_ACCESS),
            "check driver, IOMMU and ACS; 'nvidia-smi topo -p2p r' names the reason",
            ACCESS,
        )
    elif log.uses_p2p and not any(log.uses_p2p.values()) and not source.tables:
        # With a table, the forecast states the cause and the time that it costs.
        settings = [f"{name}={log.environment[name]}" for name in _P2P_SETTINGS if name in log.environment]
        remedy = "'nvidia-smi topo -p2p r' states which pairs have peer access; check driver, IOMMU and ACS"
        yield Evidence(
            "no_direct_copies",
            f"NCCL uses host memory (SHM) for all {len(log.uses_p2p)} hops of its log: no copy between GPUs is direct",
            place(source, _STATES_NO_ACCESS),
            f"remove {' and '.join(settings)}" if settings else remedy,
            ACCESS,
        )
