"""The answer of a diagnosis in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fabricast.collectives.diagnosis import Cause
from fabricast.collectives.forecast import CollectiveForecast
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, size_text
from fabricast.core.warnings import WarningCode
from fabricast.diagnosis.nccl_networks import UNUSED_CARDS
from fabricast.diagnosis.settings import COSTLY_SETTINGS
from fabricast.diagnosis.weights import ACCESS, FIRST, LINK, MINOR

#: Ratio of a measured time to a forecast without range up to which it is as expected.
_NEAR = 1.2


#: Reasons why a table is not compared: a file more, or another run, changes them.
LACKS_TOPOLOGY = "lacks a topology ('nvidia-smi topo -m')"
LACKS_GPUS = "lists no GPUs: add the lines '# Rank' above it, or 'nvidia-smi topo -m'"
ONE_RANK = (
    "lists one rank, which sends nothing to others: start more ('-g 8'; with mpirun, nccl-tests built with MPI=1)"
)


#: Words of a statement about files of one test.
AGREE = " agree: "
#: Words of a statement about times below the whole range.
FASTER = "times as fast as the shortest forecast"
FASTER_THAN_RANGE = "faster than the forecast"
#: Causes that another reason than a fault may explain, such as the path between two hosts.
POSSIBLE = (
    "slow_messages",
    "late_messages",
    "below_port_rate",
    "below_interface_rate",
    "unequal_tcp_rates",
    "messages_over_tcp",
    "late_small_messages",
    "slow_library",
    "slow_within_host",
    "slow_gpu_buffers",
    "late_process",
    "slow_protocol",
    "slower_than_fewer_nodes",
    "possible_access_control",
)
#: Answer to files that only have states of devices.
CLEAN_STATES = (
    "rates are not measured; nccl-tests and copies of GPUs, or osu_bw and ib_write_bw between hosts, show them"
)
#: Causes that files state, which no measurement shows.
_OF_FILES = ("mpi_warning", "nccl_warning", "registered_memory", WarningCode.NO_PEER_ACCESS)


#: States of devices and hosts, which say nothing about messages that are not compared, and may stand for several hosts.
OF_DEVICES = ("network_port", "gpu_errors", "host_error")


class VerdictKind(StrEnum):
    """Kind of an answer."""

    WITHIN = "within the expected range"
    FASTER = "faster than expected"
    SLOWER = "slower than expected"
    DOUBTFUL = "possibly slower than expected"
    WRONG = "wrong results"
    FAILED = "the run failed"
    STATED = "a fault is stated"
    CLEAN = "no fault is stated"
    NOTHING = "nothing could be judged"
    UNSUPPORTED = "not supported"


@dataclass(frozen=True)
class Verdict:
    """Answer in one line."""

    kind: VerdictKind
    text: str  # What was measured and expected, the most probable cause, or what is missing

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def verdict_of(
    findings: Sequence[Finding],
    within: Sequence[str],
    uncompared: Sequence[str],
    *,
    measured: int,
    missing: str,
    doubtful: Sequence[str] = (),
    damaged: Sequence[str] = (),
    over_pcie: bool = False,
    only_messages: bool = False,
) -> Verdict:
    """Return the answer: causes before agreement, agreement before what is missing."""
    if findings:
        first = findings[0]
        place = f" ({first.origin})" if first.origin else ""
        if first.cause == "wrong_results":
            return Verdict(VerdictKind.WRONG, f"{first.text}{place}")
        if first.cause == "cured_by_setting":
            # The author states the failure, and no output of the run.
            return Verdict(VerdictKind.STATED, f"{first.text}{place}")
        if first.cause == "stopped":
            return Verdict(VerdictKind.NOTHING, f"{first.text}{place}")
        if first.cause == "unfinished":
            before = f"; measured before: {[*doubtful, *within][0]}" if doubtful or within else ""
            return Verdict(VerdictKind.NOTHING, f"{first.text}{place}{before}")
        if first.rank > FIRST - 1:
            return Verdict(VerdictKind.FAILED, f"{first.text}{place}")
        if doubtful and first.rank >= ACCESS:
            # A stated cause is certain, its cost is not.
            return Verdict(VerdictKind.SLOWER, f"{first.text}{place}; {doubtful[0]}")
        if doubtful and not any(_is_measured(finding) for finding in findings):
            return Verdict(VerdictKind.DOUBTFUL, f"{doubtful[0]}; also: {first.text}{place}")
        if within and _is_certain(first):
            # Copies and collectives may be as fast as expected, and the job waits for a throttled GPU.
            return Verdict(VerdictKind.SLOWER, f"{first.text}{place}; measured: {'; '.join(_shown(within))}")
        if within and not any(_is_measured(finding) for finding in findings):
            if over_pcie and first.cause in (WarningCode.DOWNGRADED_LINK, WarningCode.SLOW_LINKS):
                # Medians over the pairs say nothing about one link.
                of_link = "" if _is_median(within[-1]) else f"; measured with this link: {within[-1]}"
                return Verdict(VerdictKind.SLOWER, f"{first.text}{place}{of_link}")
            if first.cause in ("slower_than_fewer_nodes", "late_process", "slow_library") or (
                first.cause in POSSIBLE and any(AGREE in one for one in within)
            ):
                # Files that agree may all be slow, and ranges of clusters are wide.
                return Verdict(VerdictKind.DOUBTFUL, f"{first.text}{place}; measured: {'; '.join(_shown(within))}")
            if first.cause == WarningCode.NO_PEER_ACCESS:
                return Verdict(VerdictKind.STATED, f"{first.text}{place}; measured: {'; '.join(_shown(within))}")
            return Verdict(VerdictKind.WITHIN, f"{'; '.join(_shown(within))}; also: {first.text}{place}")
        if first.cause in POSSIBLE and first.rank <= MINOR:
            return Verdict(VerdictKind.DOUBTFUL, f"{first.text}{place}")
        if first.rank <= MINOR:
            return Verdict(VerdictKind.NOTHING, f"{first.text}{place}")
        symptom = next((one for one in findings if one.cause == "slower_than_public_machines"), None)
        if symptom is not None and symptom is not first:
            return Verdict(VerdictKind.SLOWER, f"{symptom.text}; most probable cause: {first.text}{place}")
        is_of_device = only_messages and first.cause in OF_DEVICES
        if not measured or is_of_device or first.cause in _OF_FILES or (uncompared and not _is_measured(first)):
            more = f"; {uncompared[0]}" if uncompared else ""
            return Verdict(VerdictKind.STATED, f"{first.text}{place}{more}")
        return Verdict(VerdictKind.SLOWER, f"{first.text}{place}")
    if doubtful:
        return Verdict(VerdictKind.DOUBTFUL, doubtful[0])
    if within:
        others = [*damaged, *uncompared]
        more = f"; not compared: {others[0]}" if others else ""
        is_faster = FASTER in within[-1] or FASTER_THAN_RANGE in within[-1]
        kind = VerdictKind.FASTER if is_faster else VerdictKind.WITHIN
        # The first statement explains the kind.
        shown = _shown(within)[:: -1 if is_faster else 1]
        return Verdict(kind, f"{'; '.join(shown)}{more}")
    if missing == CLEAN_STATES and not damaged:
        return Verdict(VerdictKind.CLEAN, CLEAN_STATES)
    if damaged or missing:
        return Verdict(VerdictKind.NOTHING, damaged[0] if damaged else missing)
    if uncompared:
        is_missing = any(words in uncompared[0] for words in (LACKS_TOPOLOGY, LACKS_GPUS, ONE_RANK))
        kind = VerdictKind.NOTHING if is_missing else VerdictKind.UNSUPPORTED
        return Verdict(kind, f"{uncompared[0]}; the lines below list what the files state")
    if measured:
        return Verdict(
            VerdictKind.NOTHING,
            "the files lack the rate of the links, with which the measurements are compared: add 'nvidia-smi -q', "
            "'sudo lspci -vv' or --gpu MODEL",
        )
    return Verdict(
        VerdictKind.NOTHING, "nothing is measured: add copies (p2pBandwidthLatencyTest) or a log of nccl-tests"
    )


def _shown(within: Sequence[str]) -> list[str]:
    """Return the first and the last statement: copies, and the operation that the files measure."""
    return list(dict.fromkeys([within[0], within[-1]]))


def _is_median(text: str) -> bool:
    return "(median)" in text


def _is_certain(finding: Finding) -> bool:
    """Return whether a file states that a GPU is slower than it can be, or what excludes direct copies."""
    is_setting = finding.cause == Cause.HOST_MEMORY_TRANSPORT and " is set" in finding.text
    return (
        finding.cause in ("gpu_throttled", "unused_links", COSTLY_SETTINGS, UNUSED_CARDS)
        or " under load" in finding.text
        or is_setting
    )


def _is_measured(finding: Finding) -> bool:
    """Return whether a finding is a measurement that is worse than expected."""
    symptoms = (
        Cause.SLOWER_THAN_FORECAST,
        "slower_than_public_machines",
        "unused_nvlinks",
        "slower_than_other_run",
        "slow_messages",
        "late_messages",
    )
    return finding.rank > LINK or finding.cause in symptoms


def is_within(forecast: CollectiveForecast) -> bool:
    """Return whether the measured time of the largest size is not longer than its range."""
    row = forecast.table.iloc[-1]
    return bool(row["measured_us"] <= row.get("latest_us", row["time_us"] * _NEAR))


def within_text(forecast: CollectiveForecast) -> str:
    """Return measured and expected times of the largest size of a table."""
    row = forecast.table.iloc[-1]
    low, high = row.get("earliest_us", row["time_us"]), row.get("latest_us", row["time_us"])
    expected = " to ".join(dict.fromkeys(duration_text(time * 1e-6) for time in (low, high)))
    through = " through host memory" if set(forecast.transports) == {"SHM"} else ""
    relation = FASTER_THAN_RANGE if row["measured_us"] < low else "forecast"
    late = "" if is_within(forecast) else f", {row['measured_us'] / high:.2f} times the longest expected time"
    return (
        f"{forecast.operation} of {size_text(float(row['size_bytes']))}{through} lasts "
        f"{duration_text(row['measured_us'] * 1e-6)}, {relation} {expected}{late}"
    )


def is_refuted(forecast: CollectiveForecast, finding: Finding) -> bool:
    """Return whether measured times already reach the forecast of what a finding recommends."""
    table = forecast.table
    if finding.rank <= 1 or "measured_us" not in table or finding.sizes is None:
        return False
    low, high = finding.sizes
    size, measured = table["size_bytes"].to_numpy(), table["measured_us"].to_numpy(dtype=float)
    is_affected = (size >= low) & (size <= high) & np.isfinite(measured)
    if not is_affected.any():
        return False
    gain = finding.rank
    if finding.cause in (Cause.PROTOCOL_CHOICE, Cause.NO_GRAPH_FOUND):
        # Each size has a gain of its own.
        gain = table["gain"].to_numpy(dtype=float)[is_affected]
    recommended = table["time_us"].to_numpy(dtype=float)[is_affected] / gain
    return bool(np.median(measured[is_affected] / recommended) <= 1)
