"""Lines of logs without the decoration of launchers, terminals and loggers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

#: Escape sequences of terminals: colours, underlines, titles.
_ESCAPE = re.compile(r"\[[0-9;]{1,8}m|\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
#: Prefixes of mpirun, srun and container tools (a rank, a stream, a time, a worker name), and of quoted messages.
#: Open MPI's --timestamp-output precedes the stream, and Hydra writes a rank in brackets.
_PREFIX = re.compile(
    r"(?:(?:\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})?(?:\[\d+,\d+\])?<std(?:out|err|diag)>(?::| )|\[\d{1,6}\]:? "
    r"|\[[^\s\]]{1,80}@\d+,\d+\]<std(?:out|err|diag)>: ?"
    r"|\[\d+,\d+\]:| {0,5}\d{1,6}: |\[\d{4}-\d\d-\d\d[ T][\d:.,]+Z?\] ?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*Z? |(?!GPU\d|NIC\d)[A-Za-z][\w.-]{0,60} *\| "
    # Added lines of a difference, of tables.
    r"|\([A-Za-z][\w.:-]{0,80} pid=\d+[^)]{0,80}\) | {0,8}> ?|\+(?=#| {2,}\d)|\u2502 )"
)
#: Right border of a window of a terminal.
_BORDER = re.compile(r"\s{4,}\u2502$")
_MOST_PREFIXES = 4
#: Numbers that the author of a page printed in bold type.
_BOLD = re.compile(r"\*\*([\d.]{1,20})\*\*")
#: Indentation of quoted blocks; programs indent their headings by single spaces.
_QUOTED = ("\t", 4 * " ")
#: Host name that pdsh and clush print in front of every line; names without a digit may be of a program (NVRM, srun).
_HOST = re.compile(r"(?=[A-Za-z_.-]{0,60}\d)[A-Za-z][\w.-]{0,60}: |[A-Za-z][\w.-]{0,60}: (?=\[\s{0,9}\d{1,9}\.\d{6}\])")
#: Time that build servers print in front of every line.
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:  |$)")


def clean_lines(text: str, keep: Callable[[str], bool] | None = None) -> Iterator[tuple[int, str]]:
    r"""Yield the number and the text of each line, without decoration and trailing blanks.

    Decoration is what launchers, terminals, loggers and pages add; a host or indentation only if all lines have it.

    >>> list(clean_lines("[1,0]<stdout>:# nThread 1\r\n\x1b[4mGPU0\x1b[0m\n  > GPU1\n8 **2.5**"))
    [(1, '# nThread 1'), (2, 'GPU0'), (3, 'GPU1'), (4, '8 2.5')]
    """
    lines = text.split("\n")
    common = _common_prefix(lines)
    for number, raw in enumerate(lines, start=1):
        # A page may have lost the escape character of a colour.
        is_coloured = "\x1b" in raw or "[0m" in raw
        # Colours may divide the words of a line.
        if keep is not None and not is_coloured and not keep(raw):
            continue
        line = _ESCAPE.sub("", raw.rstrip("\r")) if is_coloured else raw.rstrip("\r")
        line = line[len(common) :]
        for _ in range(_MOST_PREFIXES):
            match = _PREFIX.match(line)
            if match is None:
                break
            line = line[match.end() :]
        if line.endswith("\u2502"):
            line = _BORDER.sub("", line)
        if "\u2019" in line or "\u2018" in line:
            # Pages print apostrophes of programs so.
            line = line.replace("\u2019", "'").replace("\u2018", "'")
        yield number, (_BOLD.sub(r"\1", line) if "**" in line else line).rstrip()


def _common_prefix(lines: Sequence[str]) -> str:
    """Return the host name, the indentation or a time at the start of all lines that are not blank."""
    written = (line for line in lines if line.strip())
    first = next(written, "")
    time = _TIME.match(first)
    if time is not None:
        is_second = _TIME.match(next(written, "")) is not None
        # Times differ, but not in their length.
        return f"{time[0].strip()}  " if is_second and all(map(_TIME.match, written)) else ""
    host = _HOST.match(first)
    if host is not None:
        # A single line may begin with a word of the program.
        start = host[0].rstrip()
        is_second = next(written, "").startswith(start)
        return host[0] if is_second and all(line.startswith(start) for line in written) else ""
    indentation = first[: len(first) - len(first.lstrip())]
    while indentation and (line := next(written, None)) is not None:
        while not line.startswith(indentation):
            indentation = indentation[:-1]
    return indentation if indentation.startswith(_QUOTED) else ""


def clean_text(text: str) -> str:
    """Return a text without the decoration of its lines, with the same line numbers."""
    return "\n".join(line for _, line in clean_lines(text))
