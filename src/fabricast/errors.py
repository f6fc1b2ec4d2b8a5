"""The one exception that foreign input raises, and how it reads."""

from __future__ import annotations

from pathlib import Path

__all__ = ["InputError", "PeerLinkError", "UnknownSpeedError"]


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

    Examples
    --------
    >>> print(InputError("size_bytes is -1, expected a positive number", path="graphs.csv", line=3))
    graphs.csv:3: size_bytes is -1, expected a positive number
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None) -> None:
        self.reason, self.line = message, line
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


class PeerLinkError(InputError):
    """A copy between endpoints with a direct link, which does not take the tree."""
