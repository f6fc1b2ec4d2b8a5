"""Reader of the errors that Open MPI, UCX and perftest print when processes cannot be connected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

__all__ = ["FORMAT"]

#: Messages on one line.
_MESSAGES = (
    re.compile(r"UCX\s+(?:ERROR|Fatal:?)\s+(.+)"),
    re.compile(r"pml_ucx\.c:\d{1,6}\s+Error: (.+)"),
    re.compile(r"btl_tcp_endpoint\.c[^\]]*\]\s*(connect\(\) to .+)"),
    re.compile(r"(Failed to modify QP \d{1,15} to RT[RS]\b.*|Unable to Connect the HCA's through the link)"),
    re.compile(r"^\s*(Couldn't connect to \S+:\d{1,5}.*)"),
)
#: Beginnings of messages in boxes of several lines, whose last lines name the host.
_BOX = re.compile(
    r"(By default, for Open MPI [\d.]+ and later, infiniband ports on a device"
    r"|.{0,20}There was an error initializing an OpenFabrics device"
    r"|.{0,20}There is at least (?:one )?non-excluded one OpenFabrics device found"
    r"|.{0,20}Open MPI failed to TCP connect to a peer MPI process"
    r"|A process or daemon was unable to complete a TCP connection"
    r"|At least one pair of MPI processes are unable to reach each other)"
)
_DETAIL = re.compile(r"\s*(?:Message|Error):\s+(\S.*)")
_LOCAL_HOST = re.compile(r"\s*(?:Local host|Process 1 \(.*?\) is on host):\s+(\S+)")
_BOX_ENDS = re.compile(r"-{40}")
#: Host in "[1548304905.378218] [host:4770 :0]", "[host:04770]" and "[host][[38971,1],2]".
_HOST = re.compile(r"\[([A-Za-z][\w.-]{0,200})(?::\d{1,10}\s*(?::\d{1,10})?)?\]")
_NUMBER = re.compile(r"\d+")
_WORDS = (
    "UCX ",
    "pml_ucx.c",
    "btl_tcp_endpoint",
    "modify QP",
    "the HCA's",
    "Couldn't connect",
    "infiniband ports on a device",
    "OpenFabrics device",
    "failed to TCP connect",
    "complete a TCP connection",
    "unable to reach each other",
    "Local host:",
    "is on host:",
    "Message:",
    "Error:",
    "----------",
)
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 400


def _may_be_error(line: str) -> bool:
    return any(word in line for word in _WORDS)


def _message(line: str) -> str | None:
    """Return the message of a line; None if it has none."""
    return next((match[1].strip() for one in _MESSAGES if (match := one.search(line)) is not None), None)


def _is_log(text: Text) -> bool:
    if not _may_be_error(text.raw):
        return False
    return any(_message(line) is not None or _BOX.match(line) for _, line in text.lines(_may_be_error))


def _problems(text: Text) -> Iterator[Fact]:
    """Yield the errors; those of several processes once."""
    known: set[str] = set()
    for message, number, host in _errors(text):
        kind = _NUMBER.sub("#", message)
        if kind not in known and len(known) < _MOST_PROBLEMS:
            known.add(kind)
            subject = () if host is None else (host,)
            yield text.fact(Quantity.RUN_PROBLEM, message[:_LONGEST_PROBLEM], number, "MPI", subject=subject)


def _errors(text: Text) -> Iterator[tuple[str, int, str | None]]:
    """Yield message, line and host of each error; a box ends with its line, or with the text."""
    box, first, host = "", 0, None
    details: list[str] = []
    for number, line in text.lines(_may_be_error):
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
            named = _HOST.search(line)
            yield message, number, None if named is None else named[1]
    if box:
        yield ": ".join([box, *details]), first, host


def _read(text: Text) -> Iterator[Reading]:
    problems = list(_problems(text))
    yield Reading(problems, line=problems[0].place.line)


FORMAT = Format(
    "Open MPI and UCX",
    Content.RUN_ERRORS,
    "mpirun -np 16 osu_allreduce > run.log 2>&1",
    "[1548304905.378218] [node1:4770 :0] ib_iface.c:690 UCX ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate",
    _is_log,
    _read,
    "mpi_errors.log",
    versions="connections that fail, OpenFabrics devices that Open MPI cannot use, and errors of perftest",
)
