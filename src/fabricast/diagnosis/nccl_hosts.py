"""Hosts of a run of NCCL: what some of them state otherwise than the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from fabricast.core.facts import Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.weights import ACCESS, MINOR
from fabricast.nccl.records import HostStatements, NcclLog

#: Maximum number of settings or hosts that are listed.
MOST_LISTED = 8
#: Address that the hosts of one link reach.
LINK_LOCAL = "fe80"


def is_of_one_host(log: NcclLog) -> bool:
    """Return whether a log shows that all ranks are on one host: it states so, or lists their different GPUs."""
    if log.nodes != 1:
        return False
    addresses = set(log.bus_ids.values())
    ends = [{hop[place] for hop in log.transports} for place in (0, 1)]
    # A ring that is closed within the lines of one host has no rank elsewhere, if all ends of its hops print them.
    over_network = {source for (source, _), via in log.transports.items() if via.startswith("NET")}
    prints_all = not log.sends or over_network == {source for source, _ in log.sends}
    is_closed = len(log.hosts) == 1 and len(ends[0]) > 1 and ends[0] == ends[1] and prints_all
    return log.states_nodes or len(addresses) == len(log.bus_ids) == log.ranks or is_closed


def uses_local_interface(log: NcclLog) -> bool:
    """Return whether a run that did not begin sends to other hosts over the interface of its host."""
    is_between = log.nodes > 1 or (
        not is_of_one_host(log) and any(via.startswith("NET") for via in log.transports.values())
    )
    return is_between and bool(log.local_interface) and "initialised" not in log.lines


#: What the hosts of a job should state alike: the words for a value, and the remedy where a host differs.
_OF_HOSTS = (
    ("version", "{} runs NCCL {}", "install the same version of NCCL on all hosts"),
    ("network", "{} uses the network {}", "install rdma-core and the driver of its cards, and pass /dev/infiniband"),
    (
        "plugin",
        "{} uses {} for the network",
        "use the same plugins and LD_LIBRARY_PATH on all hosts, or NCCL_NET_PLUGIN=none: different ones cannot connect",
    ),
    ("cards", "{} lists {} network cards", "check 'ibstat', cables, NCCL_IB_HCA and the devices of the container"),
    ("gpudirect", "{} sends {} GPUDirect RDMA", "load nvidia-peermem (or use DMA-BUF), and check ACS above its cards"),
)
#: Each host of a job with the file and the statements of its log.
_Hosts = dict[str, tuple[str, HostStatements]]


def _jobs(facts: Facts) -> list[_Hosts]:
    """Return the hosts of each job: of a log of several hosts, or of logs for each host of a job of several nodes."""
    jobs: dict[object, _Hosts] = {}
    for fact in facts.of(Quantity.NCCL_RUN):
        hosts = {host: (fact.place.path, one) for host, one in fact.value.hosts.items()}
        is_whole = len(hosts) >= fact.value.nodes
        job = fact.place.path if fact.value.nodes <= 1 or is_whole else fact.value.ranks
        # Two logs of a host are of two runs.
        if hosts.keys() & jobs.get(job, {}).keys():
            job = (job, fact.place.path)
        jobs.setdefault(job, {}).update(hosts)
    return list(jobs.values())


def _variables_of_some_hosts(hosts: _Hosts) -> Iterator[Finding]:
    """Yield variables of NCCL that some hosts of a job set otherwise than the others."""
    stating = {host: one for host, (_, one) in hosts.items() if one.environment and one.network}
    silent = [host for host, (_, one) in hosts.items() if one.network and not one.environment]
    names = dict.fromkeys(name for one in stating.values() for name in one.environment)
    for name in names:
        values = {host: one.environment[name] for host, one in stating.items() if name in one.environment}
        counts = Counter(value for value, _ in values.values())
        rare, count = min(counts.items(), key=lambda one: one[1])
        # Of a variable on one host, lines of the others may be left out.
        without = silent if len(values) > 1 else []
        if len(values) == len(stating) and len(counts) == 1 and not without:
            continue
        of_rare = [host for host, (value, _) in values.items() if value == rare]
        total = len(stating) + len(without)
        text = f"{name}={rare} is set on {count} of {total} hosts ({', '.join(of_rare[:MOST_LISTED])})"
        if without and len(counts) == 1:
            text += f", not on {listed(without, MOST_LISTED)}"
        others = dict.fromkeys(value for value in counts if value != rare)
        text += f", on others {', '.join([*others][:MOST_LISTED])}" if others else ""
        path, line = hosts[of_rare[0]][0], values[of_rare[0]][1]
        remedy = f"set {name} alike on all hosts, or on none: unequal settings can stop a job"
        yield Finding("host_differs_settings", text, remedy, ACCESS + 0.1, origin=f"{path}:{line}")


#: Values that are worse, whatever most hosts state.
_WORSE = {"gpudirect": "without", "network": "Socket"}


def _are_comparable(hosts: _Hosts) -> bool:
    """Return whether plugins of hosts are stated alike: names and files of one plugin differ."""
    return len({one.is_plugin_file for _, one in hosts.values() if one.plugin and one.plugin[0] != "no plugin"}) < 2


def unequal_hosts(facts: Facts) -> Iterator[Finding]:
    """Yield what some hosts of a communicator state differently from the others, also in a log for each host."""
    stopped = {fact.place.path for fact in facts.of(Quantity.CAUSE) if fact.subject[0].startswith("stopped")}
    works = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if "initialised" in fact.value.lines}
    for hosts in _jobs(facts):
        yield from _variables_of_some_hosts(hosts)
        if not works & {path for path, _ in hosts.values()}:
            yield from _interfaces(hosts, stopped)
        for name, words, remedy in _OF_HOSTS:
            stated = {host: (getattr(one, name), path) for host, (path, one) in hosts.items() if getattr(one, name)}
            values = Counter(found[0] for found, _ in stated.values())
            if len(values) < 2 or (name == "plugin" and not _are_comparable(hosts)):
                continue
            usual = _usual(name, values)
            different = {host: one for host, one in stated.items() if one[0][0] != usual}
            if name == "cards":
                different = {host: one for host, one in different.items() if int(one[0][0]) < int(usual)}
            if not different:
                continue
            missing = _missing_cards(hosts, different, usual) if name == "cards" else ""
            others = [host for host, one in stated.items() if one[0][0] == usual]
            unlike = [words.format(host, found[0]) for host, (found, _) in list(different.items())[:MOST_LISTED]]
            who = others[0] if len(others) == 1 else f"each of {len(others)} other hosts"
            text = f"{', '.join(unlike)}{missing}; {words.format(who, usual)}".replace(
                " 1 network cards", " 1 network card"
            )
            (_, line), path = min(different.values(), key=lambda one: one[0][1])
            where, on = f"{path}:{line}", ", ".join(different)
            yield Finding(f"host_differs_{name}", text, remedy, ACCESS + 0.1, origin=where, host=on)


def _missing_cards(hosts: _Hosts, different: Mapping[str, object], usual: str) -> str:
    """Return the names of the cards that the first host lacks, if hosts name their cards alike."""
    host = next(iter(different))
    here = set(hosts[host][1].card_names)
    others = {one.card_names for _, one in hosts.values() if one.cards is not None and one.cards[0] == usual}
    names = others.pop() if len(others) == 1 else ()
    lost = [name for name in names if name not in here]
    return f" ({listed(lost, MOST_LISTED)} missing)" if lost and here < set(names) else ""


#: Addresses that exist on every host, or on one link only.
_OWN = re.compile(r"127\.|::1\b")
_LOCAL = re.compile(r"127\.|fe80|169\.254\.|172\.17\.|::1\b")


def _interfaces(hosts: _Hosts, stopped: set[str]) -> Iterator[Finding]:
    """Yield interfaces over which hosts find each other, if they differ or one has no address for other hosts.

    Names may differ on hosts of one network, and local addresses work on one link: they are a cause in files of runs
    that `stopped`, or if two hosts have the same one.
    """
    used = {host: (one.interface, path) for host, (path, one) in hosts.items() if one.interface}
    addresses = Counter(interface.partition(":")[2] for (interface, _), _ in used.values())
    names = {interface.partition(":")[0] for (interface, _), _ in used.values()}
    local = [
        host
        for host, ((interface, _), path) in used.items()
        if (address := interface.partition(":")[2])
        and _LOCAL.match(address)
        and (_OWN.match(address) or path in stopped or addresses[address] > 1)
    ]
    if len(used) < 2 or (len(names) < 2 and not local):
        return
    (_, line), path = used[local[0] if local else next(iter(used))]
    listed_hosts = [f"{host} {interface.partition(':')[0]}" for host, ((interface, _), _) in used.items()]
    text = f"the hosts find each other over different interfaces ({listed(listed_hosts, MOST_LISTED)})"
    if local:
        text = f"other hosts cannot reach {local[0]} at its address ({used[local[0]][0][0]})"
    remedy = "NCCL_SOCKET_IFNAME names an interface of the same network on all hosts ('ip -brief address')"
    weight = ACCESS + 0.1 if local or path in stopped else MINOR
    yield Finding("host_differs_interface", text, remedy, weight, origin=f"{path}:{line}")


def _usual(name: str, values: Counter[str]) -> str:
    """Return the value that hosts should have: that of most hosts, but no worse value; of equal counts, more cards."""
    if name == "cards":
        return max(values, key=lambda value: (values[value], int(value)))
    good = Counter({value: count for value, count in values.items() if value != _WORSE.get(name)})
    return (good or values).most_common(1)[0][0]


def uses_infiniband(facts: Facts) -> bool:
    """Return whether the network cards are InfiniBand, and none is RoCE, as logs of NCCL or the fastest ports state."""
    layers = {layer for log in facts.values(Quantity.NCCL_RUN) for host in log.hosts.values() for layer in host.layers}
    if layers:
        return layers == {"IB"}
    ports = [(fact.value, fact.subject[1:2]) for fact in facts.of(Quantity.PORT_RATE)]
    fastest = max((rate for rate, _ in ports), default=0.0)
    return fastest > 0 and all(layer == ("InfiniBand",) for rate, layer in ports if rate == fastest)
