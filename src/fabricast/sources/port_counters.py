"""Reader of ``mlxlink``, ``ibportstate``, ``perfquery``, ``ibqueryerrors`` and the kernel's counters of a port."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM, _KERNEL = "mlxlink", "the counters of the kernel"
_FIELD = re.compile(r"^\s{0,8}([A-Z][\w /-]{2,50}?)\s*:\s+(\S.{0,200}?)\s*$")
#: Names of the speeds of InfiniBand, the slowest first.
_SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")
_HEALTHY = ("No issue was observed", "N/A")
#: Counters of perfquery, with the count from which they are no accident; 65535 is the end of a counter.
_COUNTER = re.compile(r"^(\w{4,40}):\.{2,60}(\d{1,20})\s*$")
_MOST_COUNTS = {
    "SymbolErrorCounter": 1000,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": 3,
    "PortRcvErrors": 1000,
    "LocalLinkIntegrityErrors": 1,
    "ExcessiveBufferOverrunErrors": 1,
    "PortXmitDiscards": 1000,
    "symbol_error": 1000,
    "link_error_recovery": 10,
    "link_downed": 3,
    "port_rcv_errors": 1000,
    "port_xmit_discards": 1000,
    "local_link_integrity_errors": 1,
    "excessive_buffer_overrun_errors": 1,
    # Each ends a connection, as does a program that is killed.
    "req_transport_retries_exceeded": 10,
    "req_rnr_retries_exceeded": 10,
}
#: Counters of packets that were lost, with the count from which they are no accident.
_LOSSES = {
    "packet_seq_err": 1000,
    "out_of_sequence": 1000,
    "implied_nak_seq_err": 1000,
    "local_ack_timeout_err": 100,
    "roce_adp_retrans": 1000,
    "roce_slow_restart": 1000,
}
#: Counters of all packets and requests, and the share of them from which losses are no accident.
_PACKETS = ("port_rcv_packets", "port_xmit_packets", "PortRcvPkts", "rx_write_requests", "rx_read_requests")
_LOSS_SHARE = 1e-4
#: Counter of timeouts: each is a long wait, whatever the number of packets.
_TIMEOUTS = "local_ack_timeout_err"
#: Count that no counter reaches, for those that are no errors.
_NEVER = 1 << 80
#: Title and fields of ibportstate.
_PORT_INFO = re.compile(r"^# Port info: (.{1,60}?)\s*$")
_PORT_FIELD = re.compile(
    r"^((?:Phys)?LinkState|Link(?:Width|Speed)(?:Ext)?(?:Enabled|Active)):\.{2,60}(\S.{0,120}?)\s*$"
)
_NUMBERS = re.compile(r"\d{1,4}(?:\.\d{1,8})?")
#: Rows of ibqueryerrors: node, and port with its counters.
_NODE = re.compile(r'^Errors for (?:0x[0-9a-f]{1,16} )?"([^"]{1,80})"')
_NODE_PORT = re.compile(r"^\s*GUID 0x[0-9a-f]{1,16} port (\d{1,4}|ALL): (\[.*)")
_ALL = "ALL"
_NODE_COUNTER = re.compile(r"\[(\w{4,40}) == (\d{1,20})(?: \([\d.]{1,12}\w?\))?\]")
_SINCE = "since its counters were cleared"
_SUMMARY = re.compile(r"^## Summary: (\d{1,9}) nodes checked, (\d{1,9}) bad nodes\b")
_PRINT_ALL = "diagnose the whole output of ibqueryerrors"
#: Counters of the kernel: a line for each ("grep . /sys/class/infiniband/..."), or all of a port ("rdma statistic").
_SYSFS = re.compile(r"/infiniband/([\w.-]{1,40})/ports/(\d{1,3})/(?:hw_)?counters/(\w{4,40}):(\d{1,20})\s*$")
_RDMA_STATISTIC = re.compile(r"^link ([\w.-]{1,40})/(\d{1,3}) ((?:\w{4,40} \d{1,20} ?){4,})")
_NAME_AND_COUNT = re.compile(r"(\w{4,40}) (\d{1,20})")
#: Line to which a terminal wraps the counters of a port.
_WRAPPED = re.compile(r"^\s*((?:\w{4,40} \d{1,20}(?: |$)){1,20})\s*$")
#: Counters of the time in which a port waited for room at the next one, and the count from which it is named.
_WAITS, _MANY_WAITS = ("PortXmitWait", "port_xmit_wait"), 1_000_000
#: Largest value of a counter of 32 bits.
_END = 2**32 - 1
#: Counters of congestion in a RoCE network, and the count from which they are named.
_MARKED, _MANY_MARKED = ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"), 1000
_PORT = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,6}) port (\d{1,3})")


def _is_mlxlink(text: Text) -> bool:
    return "Physical state" in text.raw and any(
        words in text.raw for words in ("Enabled Link Speed", "Operational Info")
    )


def _is_counter(line: str) -> bool:
    """Return whether a line is a counter of perfquery; smpquery and ibportstate print fields in the same form."""
    match = _COUNTER.match(line)
    return match is not None and match[1] in (*_MOST_COUNTS, *_PACKETS, *_WAITS, "PortXmitData", "PortRcvData")


def _read(text: Text) -> Iterator[Reading]:
    facts = [*_of_link(text), *_of_port_info(text), *_of_counters(text), *_of_nodes(text), *_of_kernel(text)]
    faults = [fact for fact in facts if fact.quantity is Quantity.CARD_STATE]
    programs = [name for name, is_there in _PROGRAMS.items() if is_there(text)]
    if not faults:
        facts.append(text.fact(Quantity.NOTE, f"no fault of a port in {' and '.join(programs)}", 0, _PROGRAM))
    yield Reading(facts, program=", ".join(programs))


def _of_link(text: Text) -> Iterator[Fact]:
    """Yield a port that is down, slower than it may be, or whose program recommends something."""
    fields: dict[str, tuple[str, int]] = {}
    for number, line in text.lines():
        if (match := _FIELD.match(line)) is not None:
            fields.setdefault(match[1], (match[2], number))
    if not _is_mlxlink(text) or "Physical state" not in fields:
        return
    nothing = ("", 0)
    speed, enabled = fields.get("Speed", nothing), fields.get("Enabled Link Speed", nothing)[0]
    if not enabled and speed[0]:
        words = f"a port runs at {speed[0]}, {fields.get('Width', nothing)[0] or 'of unknown width'}"
        yield text.fact(Quantity.NOTE, words, speed[1], _PROGRAM)
    names = re.findall(r"\b[A-Z]{2,3}R(?:10)?\b", enabled.partition("(")[2])
    best = max((name for name in names if name in _SPEEDS), key=_SPEEDS.index, default="")
    now = next((name for name in reversed(_SPEEDS) if speed[0].removeprefix("IB-").startswith(name)), "")
    state, physical = fields.get("State", nothing), fields.get("Physical state", nothing)[0]
    advice = fields.get("Recommendation", nothing)
    is_healthy = not advice[0] or advice[0].startswith(_HEALTHY)
    if state[0] not in ("Active", "N/A", ""):
        words = f"is {state[0]}{f' ({physical})' if physical else ''}"
        yield text.fact(Quantity.CARD_STATE, words, state[1], _PROGRAM, subject=("a port",))
    elif now and best and _SPEEDS.index(now) < _SPEEDS.index(best):
        words = f"runs at {now}, {best} is enabled"
        yield text.fact(Quantity.CARD_STATE, words, speed[1], _PROGRAM, subject=("a port",))
    elif not is_healthy and state[0] == "Active":
        rate = fields.get("Effective Physical BER", nothing)[0]
        words = f'works with a fault: "{advice[0]}"{f", bit error rate {rate}" if rate else ""}'
        yield text.fact(Quantity.CARD_STATE, words, advice[1], _PROGRAM, subject=("a port",))
        return
    if not is_healthy:
        yield text.fact(Quantity.NOTE, f'mlxlink states: "{advice[0]}"', advice[1], _PROGRAM)


def _of_port_info(text: Text) -> Iterator[Fact]:
    """Yield ports of ibportstate that are down, or slower or narrower than enabled."""
    ports: dict[str, dict[str, tuple[str, int]]] = {}
    nothing, name = ("", 0), "a port"
    for number, line in text.lines():
        if (match := _PORT_INFO.match(line)) is not None:
            name = match[1]
        elif (match := _PORT_FIELD.match(line)) is not None:
            ports.setdefault(name, {}).setdefault(match[1], (match[2], number))
    for port, fields in ports.items():
        (state, first), (physical, _) = fields.get("LinkState", nothing), fields.get("PhysLinkState", nothing)
        words = [f"is {state}{f' ({physical})' if physical else ''}"] if state not in ("", "Active") else []
        lanes, now = (_number(fields.get(f"LinkWidth{kind}", nothing)[0]) for kind in ("Enabled", "Active"))
        if not words and 0.0 < now < lanes:
            words.append(f"runs at {now:g}X, {lanes:g}X is enabled")
        # The speed of new generations stands in a field of its own, beside 10 Gbit/s in the first one.
        best, speed = (
            max(_number(fields.get(f"LinkSpeed{of}{kind}", nothing)[0]) for of in ("", "Ext"))
            for kind in ("Enabled", "Active")
        )
        if not words and 0.0 < speed < best:
            note = f"{port} runs at {speed:g} Gbit/s per lane, and could at {best:g}: the other end may be slower"
            yield text.fact(Quantity.NOTE, note, first, "ibportstate")
        if words:
            yield text.fact(Quantity.CARD_STATE, " and ".join(words), first, "ibportstate", subject=(port,))


def _number(field: str) -> float:
    """Return the largest number of a field, such as '1X or 4X'; 0 if there is none."""
    return max(map(float, _NUMBERS.findall(field)), default=0.0)


def _of_counters(text: Text) -> Iterator[Fact]:
    """Yield ports of perfquery whose counters are high."""
    port, first = "a port", 0
    counts: dict[str, int] = {}
    for number, line in text.lines():
        if (match := _PORT.match(line)) is not None:
            yield from _counted(text, "perfquery", port, counts, first)
            port, counts = f"port {match[2]} of LID {match[1]}", {}
        elif (match := _COUNTER.match(line)) is not None:
            first = first if counts else number
            counts[match[1]] = int(match[2])
    yield from _counted(text, "perfquery", port, counts, first)


def _of_nodes(text: Text) -> Iterator[Fact]:
    """Yield ports of ibqueryerrors whose counters are high; the row of all ports counts where it is the only one."""
    node, nodes = "a node", 0
    rows: dict[str, list[tuple[int, str, dict[str, int]]]] = {}
    for number, line in text.lines():
        if (match := _SUMMARY.match(line)) is not None and int(match[2]) > nodes:
            words = f"ibqueryerrors counts {match[2]} bad nodes, and the text lists {nodes}: it is cut"
            yield text.fact(Quantity.CAUSE, words, number, "ibqueryerrors", subject=("cut_counters", _PRINT_ALL))
        elif (match := _NODE.match(line)) is not None:
            node = match[1]
            nodes += 1
        elif (match := _NODE_PORT.match(line)) is not None:
            counts = {name: int(count) for name, count in _NODE_COUNTER.findall(match[2])}
            rows.setdefault(node, []).append((number, match[1], counts))
    for name, ports in rows.items():
        for number, port, counts in [row for row in ports if row[1] != _ALL] or ports:
            where = f"{name}, all ports together," if port == _ALL else f"{name} port {port}"
            yield from _counted(text, "ibqueryerrors", where, counts, number)


def _of_kernel(text: Text) -> Iterator[Fact]:
    """Yield ports whose counters of the kernel are high; of two prints, as before and after a run, the difference."""
    first: dict[tuple[str, str], dict[str, int]] = {}
    last: dict[tuple[str, str], dict[str, int]] = {}
    lines: dict[tuple[str, str], int] = {}
    repeated: set[tuple[str, str]] = set()
    for number, port, name, count in _kernel_counts(text):
        lines.setdefault(port, number)
        if name in last.get(port, {}):
            repeated.add(port)
        first.setdefault(port, {}).setdefault(name, count)
        last.setdefault(port, {})[name] = count
    for port, counts in last.items():
        is_repeated = port in repeated
        new = {name: _growth(first[port][name], count) for name, count in counts.items()} if is_repeated else counts
        since = "between the prints" if is_repeated else _SINCE
        yield from _counted(text, _KERNEL, f"{port[0]} port {port[1]}", new, lines[port], since=since)


def _growth(before: int, after: int) -> int:
    """Return the growth of a counter, which begins again if it is cleared."""
    return after - before if after >= before else after


def _kernel_counts(text: Text) -> Iterator[tuple[int, tuple[str, str], str, int]]:
    """Yield line, port, name and value of each counter of the kernel."""
    if "counters/" not in text.raw and "link " not in text.raw:
        return
    port: tuple[str, str] | None = None
    for number, line in text.lines():
        counts = ""
        if (match := _SYSFS.search(line)) is not None:
            yield number, (match[1], match[2]), match[3], int(match[4])
        elif (match := _RDMA_STATISTIC.match(line)) is not None:
            port, counts = (match[1], match[2]), match[3]
        elif port is not None and (match := _WRAPPED.match(line)) is not None:
            counts = match[1]
        else:
            port = None
        if port is not None:
            yield from ((number, port, name, int(count)) for name, count in _NAME_AND_COUNT.findall(counts))


def _counted(
    text: Text, program: str, port: str, counts: dict[str, int], line: int, *, since: str = _SINCE
) -> Iterator[Fact]:
    """Yield the state of a port with high counters of errors or losses, and notes about one that waits."""
    packets = max((counts.get(name, 0) for name in _PACKETS), default=0)
    # Totals of months have some losses: those of a small share of the packets are no fault.
    losses = {name: most if name == _TIMEOUTS else max(most, _LOSS_SHARE * packets) for name, most in _LOSSES.items()}
    for limits, what in ((_MOST_COUNTS, "has counted errors"), (losses, "lost packets, or got them in another order,")):
        high = [f"{name} {count:,}" for name, count in counts.items() if count >= limits.get(name, _NEVER)]
        if high:
            state = f"{what} {since}: {listed(high, len(limits))}"
            yield text.fact(Quantity.CARD_STATE, state, line, program, subject=(port,))
    most = _MOST_COUNTS | losses
    low = [f"{name} {count:,}" for name, count in counts.items() if 0 < count < most.get(name, 0)]
    if low:
        words = f"{port} has few errors, which are no fault by themselves: {listed(low, len(most))}"
        yield text.fact(Quantity.NOTE, words, line, program)
    for name in _WAITS:
        if counts.get(name, 0) >= _MANY_WAITS:
            end = ", the end of the counter" if counts[name] == _END else ""
            words = f"{port} waited to send ({name} {counts[name]:,}{end}): the next ports had no free buffers"
            yield text.fact(Quantity.NOTE, words, line, program)
    marked = [f"{name} {counts[name]:,}" for name in _MARKED if counts.get(name, 0) >= _MANY_MARKED]
    if marked:
        words = f"{port} saw congestion of the network ({', '.join(marked)}), by which senders were slowed down"
        yield text.fact(Quantity.NOTE, words, line, program)


#: Programs by whether a text has their output.
_PROGRAMS: dict[str, Callable[[Text], bool]] = {
    _PROGRAM: _is_mlxlink,
    "ibportstate": lambda text: any(_PORT_FIELD.match(line) for _, line in text.lines(lambda line: ":." in line)),
    "perfquery": lambda text: any(_is_counter(line) for _, line in text.lines(lambda line: ":." in line)),
    "ibqueryerrors": lambda text: (
        any(words in text.raw for words in ("Errors for ", " bad nodes ", "[LinkDowned", "[PortRcv", "[PortXmit"))
        and any(one.match(line) for _, line in text.lines() for one in (_NODE, _SUMMARY, _NODE_PORT))
    ),
    _KERNEL: lambda text: next(_kernel_counts(text), None) is not None,
}


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "sudo mlxlink -d mlx5_0 > mlxlink.txt; perfquery >> mlxlink.txt",
    "Enabled Link Speed                 : 0x000000c1 (NDR,HDR,SDR)",
    lambda text: any(is_there(text) for is_there in _PROGRAMS.values()),
    _read,
    "mlxlink.txt",
    versions="also `ibportstate`, `perfquery`, `ibqueryerrors`, `rdma statistic` and `grep . "
    "/sys/class/infiniband/*/ports/*/*counters/*`: ports slower than enabled, counters that are high; of two "
    "prints, as before and after a run, their difference",
    is_per_host=True,
)
