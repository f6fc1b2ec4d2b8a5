"""Lines of logs without the decoration of launchers, terminals and loggers."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["clean_lines", "clean_text"]

#: Escape sequences of terminals: colours, underlines, titles.
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
#: Prefixes of mpirun, srun and container tools: a rank, a stream, a time, a worker name.
_PREFIX = re.compile(
    r"(?:\[\d+,\d+\]<std(?:out|err|diag)>:|\[\d+,\d+\]:|\d{1,6}: |\[\d{4}-\d\d-\d\d[ T][\d:.,]+Z?\] ?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*Z? |[A-Za-z][\w.-]{0,60} *\| )"
)
_MOST_PREFIXES = 4


def clean_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield the number and the text of each line, without decoration and trailing blanks.

    Parameters
    ----------
    text : str
        Text of a log, with any line endings.

    Yields
    ------
    (int, str)
        Line number from 1, and text.

    Examples
    --------
    >>> list(clean_lines("[1,0]<stdout>:# nThread 1\r\n\x1b[4mGPU0\x1b[0m"))
    [(1, '# nThread 1'), (2, 'GPU0')]
    """
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _ESCAPE.sub("", raw.rstrip("\r")) if "\x1b" in raw else raw.rstrip("\r")
        for _ in range(_MOST_PREFIXES):
            match = _PREFIX.match(line)
            if match is None:
                break
            line = line[match.end() :]
        yield number, line.rstrip()


def clean_text(text: str) -> str:
    """Return a text without the decoration of its lines, with the same line numbers."""
    return "\n".join(line for _, line in clean_lines(text))
