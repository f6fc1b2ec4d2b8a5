"""Findings in the logs of nccl-tests and NCCL that need no forecast."""

from __future__ import annotations

from collections.abc import Iterator

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.diagnosis.weights import ACCESS, FIRST
from fabricast.nccl.records import NcclLog, NcclTestsTable

__all__ = ["log_findings", "wrong_results"]

_P2P_SETTINGS = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")
_CHECK_DIRECT_COPIES = (
    "test with NCCL_P2P_DISABLE=1, then check IOMMU, ACS, driver and 'nvidia-smi -q' (errors, retired pages)"
)


def wrong_results(facts: Facts) -> Iterator[Finding]:
    """Yield tables of nccl-tests with wrong results, those after the tables that are read among them."""
    tables = list(facts.of(Quantity.COLLECTIVE))
    for fact in tables:
        table: NcclTestsTable = fact.value
        if table.wrong_lines:
            text = (
                f"{len(table.wrong_lines)} of {len(table.rows) + len(table.excluded)} sizes have wrong results: direct "
                "copies or links damage data"
            )
            origin = f"{fact.place.path}:{table.wrong_lines[0]}"
            yield Finding("wrong_results", text, _CHECK_DIRECT_COPIES, FIRST, origin=origin)
    known = {fact.place.path for fact in tables if fact.value.wrong_lines}
    for fact in facts.of(Quantity.WRONG_RESULTS):
        if fact.place.path not in known:
            text = "a table after those that are compared has wrong results"
            yield Finding("wrong_results", text, _CHECK_DIRECT_COPIES, FIRST, origin=str(fact.place))


def log_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what NCCL states about direct copies and its search."""
    has_tables = any(True for _ in facts.of(Quantity.COLLECTIVE))
    for fact in facts.of(Quantity.NCCL_RUN):
        yield from _of_run(fact, has_tables=has_tables)


def _of_run(fact: Fact, *, has_tables: bool) -> Iterator[Finding]:
    log: NcclLog = fact.value

    def place(*words: str) -> str:
        line = next((log.lines[word] for word in words if word in log.lines), fact.place.line)
        return f"{fact.place.path}:{line}"

    over_network = [pair for pair, via in log.transports.items() if via.startswith("NET")]
    if over_network and log.nodes == 1:
        one, other = over_network[0]
        yield Finding(
            "network_in_host",
            f"NCCL uses the network for {len(over_network)} hops within one host (for example {one} to {other})",
            "permit shared memory: unset NCCL_SHM_DISABLE and NCCL_P2P_DISABLE; in a container --ipc=host or a larger "
            "--shm-size",
            FIRST,
            origin=place("NET"),
        )
    if log.disabled_pairs:
        one, other = log.disabled_pairs[0]
        yield Finding(
            "no_peer_access",
            f"NCCL states that direct copies are disabled between {len(log.disabled_pairs)} pairs (for example {one} "
            f"and {other}): data pass through host memory",
            "check driver, IOMMU and ACS; 'nvidia-smi topo -p2p r' names the reason",
            ACCESS,
            origin=place("disabled"),
        )
    elif log.uses_p2p and not any(log.uses_p2p.values()) and not has_tables:
        # With a table, the forecast states the cause and the time that it costs.
        settings = [f"{name}={log.environment[name]}" for name in _P2P_SETTINGS if name in log.environment]
        remedy = "'nvidia-smi topo -p2p r' states which pairs have peer access; check driver, IOMMU and ACS"
        yield Finding(
            "no_direct_copies",
            f"NCCL uses host memory (SHM) for all {len(log.uses_p2p)} hops of its log: no copy between GPUs is direct",
            f"remove {' and '.join(settings)}" if settings else remedy,
            ACCESS,
            origin=place("SHM"),
        )
