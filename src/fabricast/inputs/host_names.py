"""Names of hosts, and the lists in which Slurm prints them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

from fabricast.core.errors import InputError

_LONGEST_HOST = 253
_MOST_HOSTS = 1_000_000
#: Other characters would change the meaning of the input files of MPI launchers.
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def node_names(text: str) -> Iterator[str]:
    """Yield the hosts of a node list of Slurm.

    >>> list(node_names("rack[1-2]n[01,03]"))
    ['rack1n01', 'rack1n03', 'rack2n01', 'rack2n03']
    """
    count = 0
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        if math.prod(_length(piece) for piece in pieces[1::2]) > _MOST_HOSTS:
            raise InputError(f"'{part}' has more than {_MOST_HOSTS:,} hosts, expected fewer")
        choices = [list(_range(piece, part)) if place % 2 else [piece] for place, piece in enumerate(pieces)]
        for words in itertools.product(*choices):
            name = "".join(words)
            if not _HOST.fullmatch(name) or len(name) > _LONGEST_HOST:
                raise InputError(f"host is '{name}', expected a name of letters, digits, '.', '-' and '_'")
            count += 1
            if count > _MOST_HOSTS:
                raise InputError(f"'{part}' has more than {_MOST_HOSTS:,} hosts, expected fewer")
            yield name


def _length(text: str) -> int:
    """Return the number of hosts of ranges such as ``01-03,07``; 1 for others, which are errors later."""
    ends = [match for word in text.split(",") if (match := _RANGE.fullmatch(word)) is not None]
    return max(sum(int(match[2] or match[1]) - int(match[1]) + 1 for match in ends), 1)


def _range(text: str, part: str) -> Iterator[str]:
    """Yield the numbers of ranges such as ``01-03,07``, with leading zeros."""
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError(f"host is '{part}', expected ranges such as [01-08,12]")
        if int(match[2] or match[1]) - int(match[1]) >= _MOST_HOSTS:
            raise InputError(f"'{part}' has more than {_MOST_HOSTS:,} hosts, expected fewer")
        for number in range(int(match[1]), int(match[2] or match[1]) + 1):
            yield f"{number:0{len(match[1])}}"


def is_host_name(name: str) -> bool:
    """Return whether a name can be that of a host in the files of launchers.

    >>> is_host_name("node-01.site"), is_host_name("a b")
    (True, False)
    """
    return _HOST.fullmatch(name) is not None and len(name) <= _LONGEST_HOST
