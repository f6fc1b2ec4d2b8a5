"""Statements of files without consequence, as lines of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fabricast.core.facts import Facts, Quantity
from fabricast.core.short_text import with_count
from fabricast.diagnosis.device_states import gpu_name, is_limit_of_all, on_hosts
from fabricast.diagnosis.nccl_hosts import MOST_LISTED, is_of_one_host
from fabricast.diagnosis.nccl_networks import only_card
from fabricast.diagnosis.nccl_runs import whole_runs
from fabricast.diagnosis.settings import SWITCHED_OFF
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.records import NcclLog, NcclTestsTable
from fabricast.sources.nvidia_smi import CAPPED, EARLIER, WITHOUT_COUNTERS, WITHOUT_REASONS


def stated(facts: Facts) -> Iterator[str]:
    """Yield what the files state about runs and GPUs, each fact once with its place."""
    runs = list(whole_runs(facts))
    of_text: dict[str, list[str]] = {}
    for fact in runs:
        of_text.setdefault(_run_text(fact.value), []).append(str(fact.place))
    for text, where in of_text.items():
        if text:
            yield f"{text} ({with_count(where)})"
    for fact in runs:
        card = only_card(fact.value)
        if card:
            yield f"{card} ({fact.place})"
    lines: dict[str, str] = {}
    #: Place of each statement by host.
    of_hosts: dict[str, dict[str, str]] = {}
    for fact in facts.of(Quantity.COLLECTIVE):
        table: NcclTestsTable = fact.value
        if table.library is not None and not any(log.version for log in facts.values(Quantity.NCCL_RUN)):
            lines.setdefault(f"NCCL {'.'.join(map(str, table.library))}", str(fact.place))
        if table.hosts > 1 and not any(log.ranks == table.ranks for log in facts.values(Quantity.NCCL_RUN)):
            lines.setdefault(f"{table.ranks} ranks on {table.hosts} nodes", str(fact.place))
    for block in facts.blocks:
        if block.program == "nvidia-smi -q" and block.facts and not block.of(Quantity.GPU_STATE) and not block.problems:
            count = len({fact.subject for fact in block.of(Quantity.GPU_ADDRESS)})
            notes = [fact.value for fact in block.of(Quantity.NOTE)]
            states_clocks = WITHOUT_REASONS not in notes and not any(CAPPED in note for note in notes)
            throttling = "throttling now" if any(EARLIER in note for note in notes) else "throttling"
            what = " or ".join(["errors"] * (WITHOUT_COUNTERS not in notes) + [throttling] * states_clocks)
            gpus = "1 GPU" if count == 1 else f"{count} GPUs"
            if what:
                of_hosts.setdefault(f"{gpus} without {what}", {}).setdefault(block.host, block.place.path)
    for fact in facts.of(Quantity.NOTE):
        of_hosts.setdefault(fact.value, {}).setdefault(fact.host, str(fact.place))
    every = len({block.host for block in facts.blocks if block.host})
    for text, places in of_hosts.items():
        hosts = [host for host in places if host]
        lines.setdefault(f"{on_hosts(hosts, every)}{text}", next(iter(places.values())))
    models = Counter[str]()
    for block in facts.blocks:
        models |= Counter(_model_name(fact.value) for fact in block.of(Quantity.GPU_MODEL))
        for fact in block.of(Quantity.GPU_STATE):
            if fact.value.startswith("power limit") and is_limit_of_all(block):
                lines.setdefault(f"{gpu_name(block, fact.subject[0])}: {fact.value}", str(fact.place))
    yield from (f"{text} ({place})" for text, place in lines.items())
    if len(models) > 1:
        yield f"GPUs of several models: {', '.join(f'{count} x {name}' for name, count in models.items())}"


def _transport_name(words: str) -> str:
    """Return a transport without the number of its device, and whether it uses GPUDirect RDMA."""
    return "/".join(words.split("/")[:2]) + ("/GDRDMA" if "GDRDMA" in words else "")


def _model_name(name: str) -> str:
    """Return the words of a GPU model, which programs print in different forms."""
    return gpu_model(name).words.upper() if is_known_gpu(name) else name


def _hosts_text(log: NcclLog) -> str:
    """Return the number of nodes of a run if its log shows it, otherwise the number of hosts of the log."""
    if is_of_one_host(log):
        return "on 1 node"
    if log.nodes > 1 and (log.states_nodes or len(log.bus_ids) in (0, log.ranks)):
        return f"on {log.nodes} nodes"
    return f"(log of {log.nodes} host{'s' if log.nodes > 1 else ''})"


def _run_text(log: NcclLog) -> str:
    """Return version, ranks, nodes, transports and settings of a log."""
    parts = [] if log.version is None else [f"NCCL {'.'.join(map(str, log.version))}"]
    if log.ranks is not None:
        parts.append(f"{log.ranks} ranks {_hosts_text(log)}")
    via = Counter(_transport_name(words) for words in log.transports.values())
    if via:
        parts.append("hops via " + ", ".join(f"{name} ({count})" for name, count in via.most_common(4)))
    if log.network and not is_of_one_host(log):
        parts.append(f"network {log.network}{' (TCP)' if log.network == 'Socket' else ''}")
    if "no verbs" in log.lines and not is_of_one_host(log):
        parts.append("no InfiniBand or RoCE card usable")
    if "no NVLS" in log.lines:
        parts.append("no NVLink SHARP (NVLS multicast support is not available)")
    for name, value in list(log.environment.items())[:MOST_LISTED]:
        is_off = value.upper() in SWITCHED_OFF.get(name, ()) and not any(log.uses_p2p.values())
        parts.append(f"{name}={value}" + (" (no direct copies between GPUs)" if is_off else ""))
    return ", ".join(parts)
