"""Ports of network cards: measured bandwidths compared with their rate, and settings with their addresses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from fabricast.collectives.clusters.stated_cards import of_listed_cards, port_rates, port_rates_of_files
from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, size_text
from fabricast.core.short_text import listed
from fabricast.diagnosis.answers import Answers
from fabricast.diagnosis.messages import each_way
from fabricast.diagnosis.weights import ACCESS, FIRST, MINOR, SYMPTOM

#: Size in bytes from which a test reaches the rate of a port.
_LARGE = 2.0**16
#: Size in bytes from which single messages reach the rate of a port, and the share of it below which they are slow.
_LARGE_SINGLE, _SLOW_SINGLE = 2.0**22, 0.6
#: Shares of the rate of a port: below the first, messages are slow; above the second, they use no or several ports;
#: above the third, they show that the card is fast.
_SLOW, _MOST, _FAST = 0.8, 1.02, 0.9
#: Share of the rate of a port that TCP rarely exceeds, largest small message in bytes, and its time in s over TCP.
_OF_TCP, _SMALL, _TCP_S = 0.25, 64.0, 8e-6
_OVER_TCP = (
    "check that MPI uses the network cards: Open MPI with '--mca pml ucx' ('ompi_info | grep ucx'), Intel MPI with "
    "I_MPI_OFI_PROVIDER=mlx, MPICH with FI_PROVIDER=verbs or ucx, UCX with UCX_TLS=rc,self,sm and the card in "
    "UCX_NET_DEVICES"
)
_OVER_SHARED_MEMORY = (
    "check that MPI uses shared memory within a host: Open MPI with '--mca pml ob1 --mca btl self,sm' (vader before "
    "version 5), UCX with UCX_TLS=sm,self, Intel MPI with I_MPI_FABRICS=shm:ofi; a provider of libfabric without it "
    "(efa before version 1.9) sends over the network card"
)
#: Time in s of a small message that TCP within a cluster rarely exceeds, and what delays it more.
_SLOWEST_TCP_S = 200e-6
_SLOWER_THAN_TCP = (
    "check that each process has a core to itself (binding, no other job), the network that the library uses, lost "
    "packets and the distance between the hosts"
)
#: Time in s from which small messages of GPU memory are late, and bytes/s of four lanes of PCIe Gen3.
_LATE_IN_GPU_S, _FOUR_LANES = 15e-6, 3.94e9
_FOR_GPU_BUFFERS = (
    "'ucx_info -d' must list cuda_copy, cuda_ipc and gdr_copy (module gdrdrv); load nvidia-peermem; bind each process "
    "to the processor of its GPU; compare the same test with buffers in host memory (H H)"
)
#: Devices of Linux for RDMA without a network card that supports it (soft RoCE, soft iWARP).
_IN_SOFTWARE = re.compile(r"(?:rxe|siw)_?\w{0,16}$")
_WITH_A_CARD = "use the device of a card with InfiniBand or RoCE (-d; 'ibv_devinfo' and 'rdma link' list them)"
#: Program whose messages always pass through a network card.
_OVER_CARDS = "perftest"
_BYTES_PER_GBIT = 1.25e8
#: Share of the fastest test over TCP below which another is slow.
_SLOW_TCP = 0.6
#: Messages of NCCL that an unusable address explains.
_OF_ADDRESS = re.compile(r"ibv_modify_qp|GID|status=12|vendor[ _]err[ =]129|retry exceeded")
#: Rates of Ethernet in Gbit/s, and those of one stream of TCP that a processor limits.
_ETHERNET, _ONE_STREAM = (1, 2.5, 5, 10, 25, 40, 50, 100, 200), (15, 45)
#: Rates of ports of Ethernet, Omni-Path and InfiniBand in Gbit/s.
_PORTS = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800)
_EFA = re.compile(r"\befa\b|\brdmap\d|Elastic Fabric", re.IGNORECASE)
_MOST_NAMES = 4
_CHECK_CARD = (
    "check PCIe generation and width of the card ('sudo lspci -vv', LnkSta), the NUMA node of process and memory, the "
    "MTU ('ibv_devinfo', active_mtu)"
)
#: What delays messages of a test without a library, and what slows those of a library whose card is fast.
_LATE_CARD = (
    "repeat it without -e, which waits for interrupts; check power saving of the processors ('cpupower idle-info'), "
    "the binding to the NUMA node of the card (numactl -N), and the distance between the hosts"
)
_IN_LIBRARY = (
    "the card and the cable are fast: check what the library does (UCX_TLS, UCX_NET_DEVICES; UCX_PROTO_INFO=y prints "
    "its protocols), the binding to the NUMA node of the card, and a window of several messages"
)
_MORE_PAIRS = f"{_CHECK_CARD}, and the same test with more queue pairs (-q 4)"
_MORE_PROCESSES = f"{_CHECK_CARD}, and the same test with more processes (osu_mbw_mr)"


def compare_with_ports(facts: Facts, answers: Answers) -> None:
    """Add whether the fastest messages of each test reach the rate of their port, or of the active ports if alike."""
    if not any(facts.of(Quantity.PORT_RATE)):
        return
    fastest = _fastest(facts)
    ports, fast = _ports_of_host(facts), _fast_test(facts, fastest)
    is_reached = any(
        fact.value.convention == "windowed"
        and fact.value.bytes_per_s >= _SLOW * _rate_of(facts, fact) * _BYTES_PER_GBIT > 0.0
        for fact in fastest
    )
    for fact in fastest:
        one, gbit_s = fact.value, _rate_of(facts, fact)
        if not gbit_s:
            continue
        share = one.bytes_per_s / (gbit_s * _BYTES_PER_GBIT)
        if is_reached and one.convention != "windowed" and share < _SLOW_SINGLE:
            # Another test shows that the card is fast: single messages need not be.
            continue
        used = 1 if share <= _MOST else ports
        text = (
            f"the fastest messages of {one.path} reach {one.bytes_per_s / 1e9:.3g} GB/s{each_way(fact)} "
            f"({size_text(one.size_bytes)}), {100 * share / used:.0f} % of "
            f"{f'the {gbit_s:g} Gbit/s of a port' if used == 1 else f'the {used} ports of {gbit_s:g} Gbit/s'}"
        )
        if share > _MOST * ports:
            answers.notes.append(
                f"{one.path} reaches {one.bytes_per_s / 1e9:.3g} GB/s{each_way(fact)}, more than the active ports "
                f"({ports} x {gbit_s:g} Gbit/s): both processes are on one host, or the ports are of another one"
            )
            continue
        if share >= (_SLOW if one.convention == "windowed" else _SLOW_SINGLE) * used:
            more = f"; the host has {ports} active ports, of which they use one" if used < ports else ""
            answers.within.append(f"{text}{more}")
        elif fact.program == _OVER_CARDS:
            answers.findings.append(Finding("below_port_rate", text, _MORE_PAIRS, SYMPTOM, origin=str(fact.place)))
        else:
            of_card = _MORE_PROCESSES if (one.processes or 1) == 1 else _CHECK_CARD
            remedy = _FOR_GPU_BUFFERS if one.in_gpu_memory else _OVER_TCP if share < _OF_TCP else of_card
            text += ", if the processes are on different hosts"
            cause = "below_port_rate"
            if fast is not None and remedy == of_card:
                text += f"; {fast.value.path} reaches {fast.value.bytes_per_s / 1e9:.3g} GB/s over such a port"
                cause, remedy = "slow_library", _IN_LIBRARY
            answers.findings.append(Finding(cause, text, remedy, MINOR, origin=str(fact.place)))
    late = [fact for fact in facts.of(Quantity.MESSAGE_TIME) if _is_late(fact) and not _is_on_one_host(facts, fact)]
    if late and (gbit_s := _rate_of(facts, first := min(late, key=lambda fact: fact.value.size_bytes))):
        # Late small messages and low rates are one cause.
        slow = [one for one in answers.findings if one.cause == "below_port_rate" and one.remedy == _OVER_TCP]
        answers.findings = [one for one in answers.findings if one not in slow]
        of_file = (fact.value.bytes_per_s for fact in fastest if fact.place.path == first.place.path)
        rate = max(of_file, default=0.0)
        found = _late_messages(first, f"of {gbit_s:g} Gbit/s", is_fast=rate > _OF_TCP * gbit_s * _BYTES_PER_GBIT)
        answers.findings.append(replace(found, text="; ".join([found.text, *(one.text for one in slow[:1])])))


def _fast_test(facts: Facts, fastest: list[Fact]) -> Fact | None:
    """Return the test without a library that reaches the rate of its port."""
    of_cards = [fact for fact in fastest if fact.program == _OVER_CARDS]
    fast = (fact for fact in of_cards if fact.value.bytes_per_s > _FAST * _rate_of(facts, fact) * _BYTES_PER_GBIT > 0)
    return next(fast, None)


def _rate_of(facts: Facts, message: Fact) -> float:
    """Return the rate in Gbit/s of the card that a message states, or of all active ports; 0 if they have several."""
    ports = port_rates(facts)
    of_card = [fact for fact in ports if f"{message.value.device} port" in fact.subject[0]]
    rates = {fact.value for fact in (of_card if message.value.device and of_card else ports)}
    return float(rates.pop()) if len(rates) == 1 else 0.0


def _ports_of_host(facts: Facts) -> int:
    """Return the number of active ports of a host, the largest of several hosts."""
    return max(Counter((fact.place.path, fact.host) for fact in port_rates(facts)).values())


def slow_ports(facts: Facts) -> Iterator[Fact]:
    """Yield the state of active ports that are slower than most of their kind in output of the same program.

    A port that is as slow on most hosts, or of a card that NCCL does not use, is one for another purpose.
    """
    kinds: dict[tuple[str, ...], list[Fact]] = {}
    for fact in of_listed_cards(port_rates_of_files(facts), facts, is_chosen=False):
        kinds.setdefault((fact.program if fact.host else fact.place.path, *fact.subject[1:]), []).append(fact)
    for same in kinds.values():
        rates = Counter(float(fact.value) for fact in same)
        # The highest of equally frequent rates.
        usual = max(rates, key=lambda rate: (rates[rate], rate))
        others = "most ports" if rates[usual] > 1 else "another port"
        by_name: dict[str, Counter[float]] = {}
        for fact in same:
            by_name.setdefault(fact.subject[0], Counter())[float(fact.value)] += 1
        for fact in same:
            of_name = by_name[fact.subject[0]]
            is_of_all = of_name.total() > 1 and 2 * of_name[float(fact.value)] > of_name.total()
            if fact.value < usual and not is_of_all:
                state = f"runs at {fact.value:g} Gbit/s, {others} at {usual:g} Gbit/s"
                yield replace(fact, quantity=Quantity.CARD_STATE, value=state)


def _is_late(fact: Fact) -> bool:
    """Return whether a small message of one pair between buffers in host memory lasts as long as over TCP."""
    one = fact.value
    is_small = one.convention == "one_way" and one.processes in (None, 1) and one.size_bytes <= _SMALL
    return is_small and not one.in_gpu_memory and one.time_s > _TCP_S


def _is_on_one_host(facts: Facts, message: Fact) -> bool:
    """Return whether the file of a message states that all processes are on one host."""
    return any(fact.place.path == message.place.path for fact in facts.of(Quantity.ONE_HOST))


def _has_efa(facts: Facts) -> bool:
    """Return whether a file names EFA, over which small messages last 15 us and more."""
    cards = [fact.value.device for fact in facts.of(Quantity.MESSAGE_TIME)]
    return any(_EFA.search(text) is not None for text in (*cards, *facts.values(Quantity.NOTE)))


def messages_over_tcp(facts: Facts) -> Iterator[Finding]:
    """Yield that a library states to send over TCP, or that small messages are as late, without ports to compare."""
    has_ports = any(facts.of(Quantity.PORT_RATE))
    late_messages = [fact for fact in facts.of(Quantity.MESSAGE_TIME) if _is_late(fact)]
    if (local := next((fact for fact in late_messages if _is_on_one_host(facts, fact)), None)) is not None:
        text = (
            f"messages of {local.value.path} of {size_text(local.value.size_bytes)} last "
            f"{duration_text(local.value.time_s)} between processes of one host, where shared memory needs less than "
            "1 us"
        )
        yield Finding("slow_within_host", text, _OVER_SHARED_MEMORY, MINOR, origin=str(local.place))
        return
    late = next(iter(late_messages), None)
    stated = next(facts.of(Quantity.TCP), None)
    small = [fact for fact in facts.of(Quantity.MESSAGE_TIME) if fact.value.size_bytes <= _SMALL]
    is_refuted = late is None and any(fact.value.convention == "one_way" for fact in small)
    # The provider sockets of libfabric is slow on every network.
    is_slow = stated is not None and "provider sockets" in stated.value
    if stated is not None and (has_ports or is_slow or not is_refuted):
        more = "" if has_ports or late is None else f", {duration_text(late.value.time_s)} for a small message"
        more += "" if has_ports else "; that is slow where the hosts have InfiniBand or RoCE"
        weight = ACCESS if has_ports else MINOR
        yield Finding("messages_over_tcp", f"{stated.value}{more}", _OVER_TCP, weight, origin=str(stated.place))
    elif late is not None and not has_ports and not _has_efa(facts):
        yield _late_messages(late, "with InfiniBand or RoCE")


def slow_gpu_buffers(facts: Facts) -> Iterator[Finding]:
    """Yield messages of GPU memory that are late, or slower than the narrowest link of a GPU."""
    of_gpus = [fact for fact in facts.of(Quantity.MESSAGE_TIME) if fact.value.in_gpu_memory]
    for fact in of_gpus:
        one = fact.value
        if one.convention == "one_way" and one.size_bytes <= _SMALL and one.time_s > _LATE_IN_GPU_S:
            text = (
                f"messages of {one.path} of {size_text(one.size_bytes)} last {duration_text(one.time_s)} with "
                "buffers in GPU memory, where libraries with GDRCopy need 2 to 5 us"
            )
            yield Finding("slow_gpu_buffers", text, _FOR_GPU_BUFFERS, MINOR, origin=str(fact.place))
            return
    fast = [fact for fact in of_gpus if fact.value.convention == "windowed" and fact.value.size_bytes >= _LARGE]
    best = max(fast, key=lambda fact: fact.value.bytes_per_s, default=None)
    if best is not None and best.value.bytes_per_s < _FOUR_LANES:
        text = (
            f"messages of {best.value.path} reach {best.value.bytes_per_s / 1e9:.3g} GB/s{each_way(best)} at most with "
            "buffers in GPU memory, less than four lanes of PCIe Gen3: they pass through host memory in small parts, "
            "or the network is as slow"
        )
        yield Finding("slow_gpu_buffers", text, _FOR_GPU_BUFFERS, MINOR, origin=str(best.place))


def _late_messages(fact: Fact, cards: str, *, is_fast: bool = False) -> Finding:
    """Return the finding about a small message that lasts as long as over TCP; `is_fast`: large ones refute TCP."""
    is_tcp = fact.value.time_s < _SLOWEST_TCP_S
    text = (
        f"messages of {fact.value.path} of {size_text(fact.value.size_bytes)} last {duration_text(fact.value.time_s)}, "
    )
    if _IN_SOFTWARE.match(fact.value.device) is not None:
        text += f"network cards {cards} need 1 to 3 us: {fact.value.device} is RDMA in software over Ethernet"
        return Finding("late_small_messages", text, _WITH_A_CARD, MINOR, origin=str(fact.place))
    if is_fast or fact.program == _OVER_CARDS:
        text += f"network cards {cards} need 1 to 3 us"
        return Finding("late_small_messages", text, _LATE_CARD, MINOR, origin=str(fact.place))
    text += f"{'as' if is_tcp else 'longer than'} over TCP; network cards {cards} need 1 to 3 us"
    remedy = _OVER_TCP if is_tcp else _SLOWER_THAN_TCP
    return Finding("messages_over_tcp", text, remedy, MINOR, origin=str(fact.place))


def compare_tcp_with_interfaces(facts: Facts, answers: Answers) -> None:
    """Add whether tests over TCP reach the rate of the interfaces, if all have one."""
    rates = set(facts.values(Quantity.INTERFACE_RATE))
    if len(rates) != 1:
        return
    gbit_s = float(rates.pop())
    names = listed(list(dict.fromkeys(fact.subject[0] for fact in facts.of(Quantity.INTERFACE_RATE))), _MOST_NAMES)
    for fact in facts.of(Quantity.TCP_RATE):
        share = fact.value / gbit_s
        text = f"TCP reaches {fact.value:.3g} Gbit/s, {100 * share:.0f} % of the {gbit_s:g} Gbit/s of {names}"
        if share >= _SLOW:
            if share <= _MOST:
                answers.within.append(text)
            continue
        slower = next((one for one in _ETHERNET if one < gbit_s and 0.9 * one <= fact.value <= one), None)
        is_single = "one stream" in fact.subject
        low, high = _ONE_STREAM
        if slower is not None:
            text += f", as over a link of {slower:g} Gbit/s"
        if is_single and low <= fact.value <= high:
            text += f"{' or' if slower is not None else ','} as one stream that a processor limits"
        remedy = "find the interface of the route ('ip route get ADDRESS') and the slowest link of the path"
        remedy += ", and test several streams (iperf3 -P 8)" if is_single else ""
        answers.findings.append(Finding("below_interface_rate", text, remedy, MINOR, origin=str(fact.place)))


def unequal_tcp_rates(facts: Facts) -> Iterator[Finding]:
    """Yield the slowest of several tests over TCP, if another is much faster."""
    tests = list(facts.of(Quantity.TCP_RATE))
    if len(tests) < 2 or any(facts.of(Quantity.INTERFACE_RATE)):
        return
    low, high = (choose(tests, key=lambda fact: float(fact.value)) for choose in (min, max))
    if low.value < _SLOW_TCP * high.value:
        text = f"a test over TCP reaches {low.value:.3g} Gbit/s, another {high.value:.3g} Gbit/s ({high.place})"
        remedy = (
            "compare hosts, paths, buffers (-w) and programs: before version 3.16 all streams of iperf3 share one "
            "core, several processes of it (-p) do not"
        )
        yield Finding("unequal_tcp_rates", text, remedy, MINOR, origin=str(low.place))


def unusable_addresses(facts: Facts) -> Iterator[Finding]:
    """Yield a setting that chooses an address of RoCE ports that other hosts cannot reach, and ports without one."""
    yield from _ports_without_address(facts)
    for run in facts.of(Quantity.NCCL_RUN):
        index = run.value.environment.get("NCCL_IB_GID_INDEX")
        cards = run.value.environment.get("NCCL_IB_HCA", "").lstrip("=").split(",")
        used = [
            fact
            for fact in facts.of(Quantity.GID)
            if any(fact.subject[0].startswith(card.split(":")[0]) for card in cards)
        ]
        bad = [fact for fact in used if fact.subject[1] == index and fact.value]
        if index is None or not used or (not bad and any(fact.subject[1] == index for fact in used)):
            continue
        first = [*bad, *used][0]
        port = first.subject[0]
        of_port = [fact for fact in facts.of(Quantity.GID) if fact.subject[0] == port and fact.host == first.host]
        good = [fact.subject[1] for fact in of_port if not fact.value]
        text = f"NCCL_IB_GID_INDEX={index} selects an address of {port} that is {first.value}"
        if not bad:
            indexes = sorted({fact.subject[1] for fact in of_port}, key=lambda one: (len(one), one))
            text = f"NCCL_IB_GID_INDEX={index} selects no address of {port}, whose indexes are {listed(indexes, 8)}"
        remedy = (
            f"NCCL_IB_GID_INDEX={good[-1]}"
            if good
            else "configure an IPv4 address of the port; 'show_gids' lists its index"
        )
        # RoCE v1 and link-local addresses serve hosts of one subnet.
        has_failed = any(facts.of(Quantity.NCCL_PROBLEM)) or any(facts.of(Quantity.CAUSE))
        weight = ACCESS + 0.2 if has_failed and good else MINOR
        if good and any(_OF_ADDRESS.search(message) for message in facts.values(Quantity.NCCL_PROBLEM)):
            # It explains the message. InfiniBand has no address of RoCE v2, and needs no index.
            weight = FIRST - 0.005
        yield Finding("unusable_address", text, remedy, weight, origin=str(first.place))
        return


def _ports_without_address(facts: Facts) -> Iterator[Finding]:
    """Yield ports without an address that other hosts can reach, where the same port of other hosts has one."""
    ports: dict[str, dict[str, list[Fact]]] = {}
    for fact in facts.of(Quantity.GID):
        ports.setdefault(fact.subject[0], {}).setdefault(fact.host, []).append(fact)
    for port, hosts in ports.items():
        lacking = {host: found[0] for host, found in hosts.items() if all(fact.value for fact in found)}
        others = len(hosts) - len(lacking)
        for host, fact in lacking.items() if others > len(lacking) else ():
            text = (
                f"{host} {port} has no RoCE v2 address that other hosts can reach, on {others} other hosts it has one"
            )
            remedy = "configure the IPv4 address of this port as on the other hosts ('ip -brief address')"
            yield Finding("network_port", text, remedy, ACCESS, origin=str(fact.place), host=host, device=port)


def unequal_packets(facts: Facts) -> Iterator[Finding]:
    """Yield interfaces of one name on several hosts whose packets have different sizes."""
    by_name: dict[str, dict[str, Fact]] = {}
    for fact in facts.of(Quantity.PACKET_SIZE):
        name, address = fact.subject
        if address:
            by_name.setdefault(name, {}).setdefault(address, fact)
    for name, hosts in by_name.items():
        sizes = {fact.value: fact for fact in hosts.values()}
        if len(sizes) > 1:
            low, high = sizes[min(sizes)], sizes[max(sizes)]
            places = low.host or "one host", high.host or "another"
            text = f"{name} sends packets (MTU) of {low.value} bytes on {places[0]} and of {high.value} on {places[1]}"
            remedy = f"set one MTU on all hosts and switches: ip link set {name} mtu {high.value}"
            yield Finding("unequal_packets", f"{text} ({high.place})", remedy, ACCESS, origin=str(low.place))


def rate_words(facts: Facts) -> str:
    """Return the rate of a port that the only test nearly reaches; empty if it reaches none."""
    fastest = _fastest(facts)
    if len(fastest) != 1:
        return ""
    gbit_s = fastest[0].value.bytes_per_s / _BYTES_PER_GBIT
    port = next((rate for rate in _PORTS if _FAST * rate <= gbit_s <= _MOST * rate), None)
    if port is None:
        return ""
    reached = f"{fastest[0].value.bytes_per_s / 1e9:.3g} GB/s"
    return f"; its {reached} are {100 * gbit_s / port:.0f} % of a port of {port:g} Gbit/s"


def _fastest(facts: Facts) -> list[Fact]:
    """Return the message with the highest rate of each bandwidth test with large messages."""
    best: dict[str, Fact] = {}
    for fact in facts.of(Quantity.MESSAGE_TIME):
        one = fact.value
        is_windowed = one.convention == "windowed" and one.size_bytes >= _LARGE
        # Of single messages only those of several MiB reach the rate of a port.
        is_single = one.convention == "one_way" and one.size_bytes >= _LARGE_SINGLE and not one.in_gpu_memory
        # Several pairs share the port; only OSU measures them.
        is_single = is_single and (one.processes == 1 or (one.processes is None and fact.program != "OSU"))
        if not (is_windowed or is_single):
            continue
        before = best.get(one.path)
        if before is None or one.bytes_per_s > before.value.bytes_per_s:
            best[one.path] = fact
    return list(best.values())
