"""Reader of the errors that Open MPI, UCX, libfabric and perftest print when processes cannot be connected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.known_messages.table import message_table
from fabricast.sources.text import Format, Reading, Text, is_source_code

_TABLE = message_table("mpi")
#: Beginnings of messages in boxes of several lines, whose last lines name the host.
_BOX = re.compile(
    r"\s{0,8}(.{0,20}There is at least (?:one )?non-excluded one OpenFabrics device found"
    r"|.{0,20}Open MPI failed to TCP connect to a peer MPI process"
    r"|A process or daemon was unable to complete a TCP connection"
    r"|(?:ORTE|PRTE) has lost communication with a remote daemon"
    r"|At least one pair of MPI processes are unable to reach each other"
    r"|The OpenFabrics \(openib\) BTL failed to initialize while trying to)"
)
#: Box about the transport of Open MPI before UCX, which is harmless: the cards are used by another one.
_OLD_TRANSPORT = re.compile(
    r"By default, for Open MPI [\d.]+ and later, infiniband ports on a device"
    r"|.{0,20}There was an error initializing an OpenFabrics device"
)
#: Harmless lines with the program and what they mean.
_NOTES = (
    (
        _OLD_TRANSPORT,
        "MPI",
        (
            "Open MPI does not use the network cards by its old transport (openib), and uses UCX, PSM2 or TCP: "
            "'ompi_info' lists what is built in"
        ),
    ),
    (
        re.compile("The hostname of the client socket cannot be retrieved"),
        "torch.distributed",
        "torch.distributed cannot look up the name of a host by its address, which changes no rate",
    ),
    (
        re.compile("topology recognition shows PCIe connection"),
        "oneCCL",
        "oneCCL finds no Xe Link between the GPUs, so that their copies pass over PCIe",
    ),
)
#: Provider of libfabric that Intel MPI states, and those that send over TCP.
_PROVIDER = re.compile(r"MPI startup\(\): libfabric provider: (\S{1,40})")
_OVER_TCP = ("tcp", "sockets")
#: Transports and devices of UCX for tagged messages between hosts.
_UCX_LANES = re.compile(r"\binter-node cfg#\d{1,6} tag\(([^)]{1,400})\)")
#: Transport between two processes, as Open MPI prints it with btl_base_verbose, and the host of the other one.
_BTL = re.compile(r"\bbml: Using (\w{2,20}) btl for send to \S{1,60} on node (\S{1,60})")
#: Summary of Cray MPICH about its network.
_TIMEOUTS = re.compile(r"MPICH Slingshot Network Summary: ([1-9]\d{0,12}) network timeouts")
#: Line of --report-bindings of Open MPI, before and since version 5.
_BINDING = re.compile(
    r"\[([A-Za-z][\w.-]{0,200}):\d{1,10}\] (?:MCW rank|Rank) (\d{1,7}) bound to "
    r"(?:socket (\d{1,3})\[core|package\[(\d{1,3})\])"
)
_UNBOUND = re.compile(r"\[([A-Za-z][\w.-]{0,200}):\d{1,10}\] (?:MCW rank|Rank) (\d{1,7}) is not bound")
_CORES = re.compile(r"(?:socket|package).{0,400}?(?=:? \[|$)")
#: "core:0-15" and "core:0,2" of Open MPI 5.
_SEVERAL_CORES = re.compile(r"core[:\[ ]\d{1,6}[-,]")
_DETAIL = re.compile(r"\s*(?:(?:Message|Error):\s+|Remote daemon: .{0,80}?(?=on node ))(\S.*)")
_LOCAL_HOST = re.compile(r"\s*(?:Local host|Process 1 \(.{0,80}?\) is on host):\s+(\S+)")
_BOX_ENDS = re.compile(r"-{40}")
#: Host in "[1548304905.378218] [host:4770 :0]", "[host:04770]" and "[host][[38971,1],2]".
_HOST = re.compile(
    r"\[((?!\w{1,60}\.(?:py|cc?|cpp|h):)[A-Za-z][\w.-]{0,200})(?::\d{1,10}\s*(?::\d{1,10}\s*)?(?::\d{1,10})?\]|\]\[)"
)
_NUMBER = re.compile(r"\d+")
#: Warning of Open MPI, and the line that states how much memory can be registered.
_PART_OF_MEMORY = "allow registering part of your physical memory"
_REGISTERED = re.compile(r"Registerable memory:\s+(\d{1,12}) MiB")
#: Words of lines that are no messages by themselves: of boxes, ends of runs, bindings, transports.
_WORDS = (
    *_TABLE.words,
    "infiniband ports on a device",
    "OpenFabrics device",
    "failed to TCP connect",
    "complete a TCP connection",
    "unable to reach each other",
    "has lost communication",
    "BTL failed to initialize",
    "Local host:",
    "is on host:",
    "Message:",
    "Remote daemon:",
    "Error:",
    "MPI_",
    "atal error",
    "Primary job",
    "CmiAbortHelper",
    "signal",
    "FATAL: ",
    "INTERNAL ERROR",
    "resolve UCX endpoint",
    "create UCP worker",
    "etry count exceeded",
    "----------",
    "[c10d]",
    "not bound",
    " bound to ",
    "libfabric provider",
    "bml: Using",
    "inter-node cfg#",
    "topology recognition",
    "Network Summary",
    _PART_OF_MEMORY,
    "Registerable memory:",
)
_ENDED = "CANCELLED AT"
#: Row of nccl-tests: size, number of elements, type and operation.
_ROW_OF_NCCL = re.compile(r"^\s{0,20}\d{1,20}\s+\d{1,20}\s+[a-z]\w{2,12}\s+[a-z]\w{1,12}\s", re.MULTILINE)
#: Row of an error completion of mlx5 in hexadecimal words; the second word of the last row ends with the syndrome.
_COMPLETION, _ROW_OF_COMPLETION = "got completion with error", re.compile(r"^\s*(?:[0-9a-f]{8} ){3}[0-9a-f]{8}\s*$")
#: Last row of an error completion of DPDK in hexadecimal bytes: the eighth byte is the syndrome.
_DPDK, _ROW_OF_DPDK = "MLX5 Error CQE", re.compile(r"^\s*00000030:(?: [0-9A-F]{2}){7} ([0-9A-F]{2})")
_SYNDROMES = {
    0x01: "local length error",
    0x02: "local error of the queue",
    0x04: "local protection error",
    0x05: "flushed after an earlier error",
    0x12: "remote invalid request",
    0x13: "remote access error",
    0x14: "remote operation error",
    0x15: "transport retry exceeded",
    0x16: "receiver not ready",
}
_MOST_PROBLEMS = 20
_MOST_BINDINGS = 4
_LONGEST_PROBLEM = 400


def _may_be_error(line: str) -> bool:
    return any(word in line for word in _WORDS)


def _message(line: str) -> str | None:
    """Return the message of a line; None if it has none, if NCCL prints it, or if the line is source code."""
    return None if "NCCL " in line or is_source_code(line) else _TABLE.message(line)


def _is_log(text: Text) -> bool:
    if not _may_be_error(text.raw):
        return False
    notes = [pattern for pattern, *_ in _NOTES]
    others = (_BINDING, _UNBOUND, _BOX, _PROVIDER, _UCX_LANES, _TIMEOUTS, _REGISTERED, _BTL, *notes)
    return any(
        _message(line) is not None or any(one.search(line) for one in others) for _, line in text.lines(_may_be_error)
    )


def _problems(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the errors; those of several processes once."""
    known: set[str] = set()
    for message, number, host in _errors(text, lines):
        if message.endswith(_COMPLETION):
            message += _syndrome(text.clean_lines[number : number + 4])
        elif message == _DPDK:
            # A title may name the error before its rows.
            found = map(_ROW_OF_DPDK.match, text.clean_lines[number:])
            message += next((_named(int(match[1], 16)) for match in found if match is not None), "")
        kind = _NUMBER.sub("#", message)
        if kind not in known and len(known) < _MOST_PROBLEMS:
            known.add(kind)
            subject = () if host is None else (host,)
            yield text.fact(Quantity.MPI_PROBLEM, message[:_LONGEST_PROBLEM], number, "MPI", subject=subject)


def _syndrome(rows: list[str]) -> str:
    """Return the reason of an error completion that its four rows state."""
    if len(rows) < 4 or not all(_ROW_OF_COMPLETION.match(row) for row in rows):
        return ""
    return _named(int(rows[3].split()[1][-2:], 16))


def _named(syndrome: int) -> str:
    return f" (syndrome {syndrome:#04x}: {_SYNDROMES[syndrome]})" if syndrome in _SYNDROMES else ""


def _errors(text: Text, lines: list[tuple[int, str]]) -> Iterator[tuple[str, int, str | None]]:
    """Yield message, line and host of each error; a box ends with its line, or with the text."""
    box, first, host = "", 0, None
    details: list[str] = []
    after = dict(lines)
    for number, line in lines:
        if box and _BOX_ENDS.search(line):
            yield ": ".join([box, *details]), first, host
            box, details, host = "", [], None
        elif not box and (match := _BOX.match(line)) is not None:
            box, first = match[1].strip(), number
        elif box and (match := _LOCAL_HOST.match(line)) is not None:
            host = match[1]
        elif box and (match := _DETAIL.match(line)) is not None:
            details.append(match[1].strip())
        elif (message := _message(line)) is not None:
            # HCCL prints the parts of its program in brackets.
            named = None if "HCCL(" in line or " EI0" in line else _HOST.search(line)
            if message.endswith("exited on"):
                # Open MPI breaks this line before the signal.
                message += f" {after.get(number + 1, '').strip()}"
            elif message.startswith("ibv_reg_mr(") and message.endswith(","):
                # Pages break the line of UCX before its reason.
                message += f" {text.clean_lines[number].strip()}" if number < len(text.clean_lines) else ""
            yield message, number, None if named is None else named[1]
    if box:
        yield ": ".join([box, *details]), first, host


def _read(text: Text) -> Iterator[Reading]:
    # The reader of nccl-tests states how far a run came that Slurm ended.
    is_of_nccl = "algbw" in text.raw and _ROW_OF_NCCL.search(text.raw) is not None
    lines = [(number, line) for number, line in text.lines(_may_be_error) if not (is_of_nccl and _ENDED in line)]
    facts = list(_problems(text, lines))
    aborted = next((number for number, line in lines if _TABLE.is_last(line)), None)
    if facts and aborted is not None:
        facts.append(text.fact(Quantity.MPI_ABORTED, True, aborted, "MPI"))
    for pattern, program, words in _NOTES:
        first = next((number for number, line in lines if pattern.search(line)), None)
        if first is not None:
            facts.append(text.fact(Quantity.NOTE, words, first, program))
    facts += [*_bindings(text, lines), *_of_network(text, lines), *_of_memory(text, lines)]
    yield Reading(facts, line=min((fact.place.line for fact in facts), default=0))


def _bindings(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the note to which sockets the ranks of each host are bound."""
    ranks: dict[tuple[str, str], list[int]] = {}
    cores: dict[tuple[str, str], list[tuple[int, int]]] = {}
    first = 0
    unbound = [(number, match) for number, line in lines if (match := _UNBOUND.search(line)) is not None]
    if unbound:
        number, match = unbound[0]
        who = f"{len(unbound)} ranks are" if len(unbound) > 1 else f"rank {match[2]} of {match[1]} is"
        words = f"{who} not bound: processes may move between sockets and cores (--bind-to core)"
        yield text.fact(Quantity.NOTE, words, number, "Open MPI")
    seen: set[tuple[str, str]] = set()
    for number, line in lines:
        if (match := _BINDING.search(line)) is not None:
            if (match[1], match[2]) in seen:
                # A rank for the second time is of the next run.
                break
            seen.add((match[1], match[2]))
            first = first or number
            ranks.setdefault((match[1], match[3] or match[4]), []).append(int(match[2]))
            if (bound := _CORES.search(line)) is not None:
                cores.setdefault((match[1], bound[0]), []).append((int(match[2]), number))
    if not ranks:
        return
    for (host, place), same in cores.items():
        if len(same) > 1 and place.count("core") == 1 and _SEVERAL_CORES.search(place) is None:
            words = f"ranks {same[0][0]} and {same[1][0]} of {host} are bound to the same core ({place.rstrip(':')})"
            yield text.fact(Quantity.CAUSE, words, same[1][1], "Open MPI", subject=("shared_core",))
    places = [f"{_ranks_text(numbers)} of {host} to socket {socket}" for (host, socket), numbers in ranks.items()]
    words = f"processes are bound: {listed(places, _MOST_BINDINGS)}"
    if len({socket for _, socket in ranks}) > 1 and all(len(numbers) == 1 for numbers in ranks.values()):
        words += "; sockets differ, and a network card is near one of them"
    yield text.fact(Quantity.NOTE, words, first, "Open MPI")


def _ranks_text(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} ranks"


def _of_memory(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield that Open MPI warns about memory that the network cards may not register, with its size."""
    first = next((number for number, line in lines if _PART_OF_MEMORY in line), None)
    if first is not None:
        size = next((match[1] for _, line in lines if (match := _REGISTERED.search(line)) is not None), None)
        words = f"network cards may register only {f'{size} MiB' if size else 'a part'} of the memory of a host"
        yield text.fact(Quantity.CAUSE, words, first, "Open MPI", subject=("registered_memory",))


def _of_network(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the transports that UCX and Intel MPI use, and the timeouts that Cray MPICH counts."""
    lanes = next(((number, match[1]) for number, line in lines if (match := _UCX_LANES.search(line)) is not None), None)
    if lanes is not None:
        number, used = lanes[0], list(dict.fromkeys(lanes[1].split()))
        words = f"UCX sends between hosts by {listed(used, _MOST_BINDINGS)}"
        yield text.fact(Quantity.NOTE, words, number, "UCX")
        if all(one.startswith("tcp/") for one in used):
            yield text.fact(Quantity.TCP, f"{words}: it sends over TCP", number, "UCX")
    sends = {match[2]: (match[1], number) for number, line in lines if (match := _BTL.search(line)) is not None}
    if sends:
        ways = listed([f"{host} by {name}" for host, (name, _) in sends.items()], _MOST_BINDINGS)
        first = min(number for _, number in sends.values())
        yield text.fact(Quantity.NOTE, f"Open MPI sends to {ways}", first, "Open MPI")
        for host, (name, number) in sends.items():
            if name == "tcp":
                yield text.fact(Quantity.TCP, f"Open MPI sends to {host} over TCP (btl tcp)", number, "Open MPI")
    for number, line in lines:
        if (match := _PROVIDER.search(line)) is not None:
            words = f"Intel MPI uses the provider {match[1]} of libfabric"
            yield text.fact(Quantity.NOTE, words, number, "Intel MPI")
            if match[1].partition(";")[0] in _OVER_TCP:
                yield text.fact(Quantity.TCP, f"{words}: it sends over TCP", number, "Intel MPI")
            return
        if (match := _TIMEOUTS.search(line)) is not None:
            words = f"the network timed out {match[1]} times: packets were lost or delayed (Cray MPICH)"
            yield text.fact(Quantity.CAUSE, words, number, "Cray MPICH", subject=("timeouts",))


FORMAT = Format(
    "MPI, UCX, gloo and launchers",
    Content.RUN_ERRORS,
    "mpirun -np 16 osu_allreduce > run.log 2>&1",
    "[1548304905.378218] [node1:4770 :0] ib_iface.c:690 UCX ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate",
    _is_log,
    _read,
    "mpi_errors.log",
    versions="also of libfabric and perftest: connections, devices and memory that processes cannot use; crashes "
    "in the words of mpirun, prterun, MPICH, Intel MPI, srun, torchrun and DeepSpeed",
)
