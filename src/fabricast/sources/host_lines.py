"""Lines of several hosts in one text, as pdsh, clush, dshbak and srun print them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from fabricast.core.errors import InputError
from fabricast.inputs.host_names import node_names

#: Lines of pdsh and clush: a host and what it printed. Names without a digit may be words of a program, except in front
#: of the time of a kernel log.
_OF_HOST = re.compile(
    r"((?=[A-Za-z_.-]{0,60}\d)(?!\d{1,9}:)[A-Za-z0-9][\w.-]{0,60}|[A-Za-z][\w.-]{0,60}(?=: \[\s{0,9}\d{1,9}\.\d{6}\]))"
    r":(?: |(?=\t)|$)(.*)"
)
#: Lines of 'srun -l': the number of a task and what it printed.
_OF_TASK = re.compile(r" {0,5}(\d{1,5}):(?: |$)(.*)")
#: Title of 'dshbak -c' and 'clush -b' between two rules: hosts with equal lines, and their number. Words without a
#: digit may be titles of a program.
_RULE = re.compile(r"-{4,40}\s*$")
_TITLE = re.compile(r"(?=\S{0,1000}\d)([A-Za-z0-9][\w.,\[\]-]{0,1000})(?: \(\d{1,5}\))?\s*$")
#: Share of the lines that name their host from which a text is of hosts, and length of its first part in characters,
#: which decides first.
_SHARE, _HEAD = 0.5, 1 << 16
#: Least lines of a task, and largest number of hosts of a title whose lines are repeated for each.
_FEWEST, _MOST_HOSTS = 3, 64

#: Number in the file and text of some lines.
Lines = list[tuple[int, str]]


def lines_by_host(text: str) -> dict[str, Lines]:
    """Return the lines of each host, and under an empty name others; none unless most lines belong to a host."""
    head = text[:_HEAD].split("\n")
    if _are_of_hosts(head):
        return _labelled(text, _OF_HOST, "")
    if any(map(_RULE.match, head)):
        return _titled(text.split("\n"))
    if _OF_TASK.match(head[0]) and _are_of_tasks(text.split("\n")):
        return _labelled(text, _OF_TASK, "task ")
    return {}


def _are_of_hosts(lines: Sequence[str]) -> bool:
    """Return whether most lines name their host."""
    written = [line for line in lines if line.strip()]
    return bool(written) and sum(_OF_HOST.match(line) is not None for line in written) >= _SHARE * len(written)


def _are_of_tasks(lines: Sequence[str]) -> bool:
    """Return whether all lines name one of several tasks, and each task has several lines."""
    matches = [_OF_TASK.match(line) for line in lines if line.strip()]
    counts = Counter(match[1] for match in matches if match is not None)
    return None not in matches and len(counts) > 1 and min(counts.values()) >= _FEWEST


def _labelled(text: str, pattern: re.Pattern[str], word: str) -> dict[str, Lines]:
    """Return the lines of each host that a label names."""
    hosts: dict[str, Lines] = {"": []}
    for number, line in enumerate(text.split("\n"), start=1):
        match = pattern.match(line)
        host, words = ("", line) if match is None else (f"{word}{match[1]}", match[2])
        hosts.setdefault(host, []).append((number, words))
    others = sum(bool(line.strip()) for _, line in hosts[""])
    named = sum(map(len, hosts.values())) - len(hosts[""])
    return hosts if named >= _SHARE * (named + others) else {}


def _titled(lines: Sequence[str]) -> dict[str, Lines]:
    """Return the lines of each host below the title that names it."""
    hosts: dict[str, Lines] = {"": []}
    current = [""]
    number = 0
    while number < len(lines):
        title = _title(lines[number : number + 3])
        if title:
            current = title
            number += 3
            continue
        for host in current:
            hosts.setdefault(host, []).append((number + 1, lines[number]))
        number += 1
    return hosts if len(hosts) > 1 else {}


def _title(lines: Sequence[str]) -> list[str]:
    """Return the hosts of a title of three lines; none if it is no title."""
    if len(lines) < 3 or not (_RULE.match(lines[0]) and _RULE.match(lines[2])):
        return []
    match = _TITLE.match(lines[1])
    try:
        names = [] if match is None else list(islice(node_names(match[1]), _MOST_HOSTS + 1))
    except InputError:
        return []
    return names if len(names) <= _MOST_HOSTS or match is None else [match[1]]
