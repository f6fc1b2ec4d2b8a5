"""The one exception that foreign input raises, and how it reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["InputError", "NoAcceleratorError", "PeerLinkError", "UnknownSpeedError", "near_names", "unknown_name"]


class InputError(ValueError):
    """Foreign input that is refused, with the reason in one line.

    Parameters
    ----------
    message : str
        What was found and what was expected.
    path : Path or str, optional
        The file that holds it.
    line : int, optional
        The line in that file, counted from 1.
    argument : str, optional
        The argument of a function that the message begins with; the command line names its option.

    Examples
    --------
    >>> print(InputError("size_bytes is -1, expected a positive number", path="graphs.csv", line=3))
    graphs.csv:3: size_bytes is -1, expected a positive number
    """

    def __init__(
        self, message: str, *, path: Path | str | None = None, line: int | None = None, argument: str | None = None
    ) -> None:
        self.reason, self.line, self.argument = message, line, argument
        if argument is not None:
            message = f"{argument} {message}"
        place = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(_shown(place + message))


#: A line that a person reads: longer words of foreign files are cut, and so is what they add up to.
_LONGEST_WORD, _LONGEST_MESSAGE = 200, 1000


def _shown(message: str) -> str:
    """Return a message without control characters and without endless words of a foreign file."""
    clean = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in message
    )
    words = [word if len(word) <= _LONGEST_WORD else word[: _LONGEST_WORD - 3] + "..." for word in clean.split()]
    text = " ".join(words)
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


class UnknownSpeedError(InputError):
    """The topology records no speed of its links, and nothing else tells how fast a copy is."""


class NoAcceleratorError(InputError):
    """The description of a machine names no accelerator."""


class PeerLinkError(InputError):
    """A copy between endpoints with a direct link, which does not take the tree."""


def near_names(name: str, known: Iterable[str]) -> str:
    """Return a question for a name that was mistyped; nothing if no known one is near.

    Examples
    --------
    >>> near_names("max_mn", ["max_min", "literal"])
    " (did you mean 'max_min'?)"
    """
    near = difflib.get_close_matches(str(name)[:_LONGEST_WORD], list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str], *, otherwise: str = "", **place: Any) -> InputError:
    """Return the error for a name that is not among the known ones, with those that are near.

    Parameters
    ----------
    kind : str
        What it names.
    name : str
        What was found.
    known : iterable of str
        What was expected.
    otherwise : str, default ''
        What else would do.
    **place
        ``path`` and ``line`` of `InputError`.

    Examples
    --------
    >>> print(unknown_name("routing", "directt", ["direct", "indirect"]))
    routing 'directt' is unknown (did you mean 'direct' or 'indirect'?), expected one of direct, indirect
    """
    names = list(known)
    expected = f"{', '.join(names)}{otherwise}"
    return InputError(f"{kind} '{name}' is unknown{near_names(name, names)}, expected one of {expected}", **place)
