"""Exceptions raised for invalid user input."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class InputError(ValueError):
    """Invalid user input, with a one-line explanation.

    Parameters
    ----------
    message : str
        Invalid value and expected values.
    path : Path or str, optional
        Input file that contains the value.
    line : int, optional
        Line in that file, counted from 1.
    argument : str, optional
        Function argument with the invalid value, which is put before the message. The command line
        replaces it by the name of its option.
    item : tuple of (str, str or int), optional
        Name of a list in the file, and name or index of the invalid element. File readers use it to add the line.

    Examples
    --------
    >>> print(InputError("size_bytes is -1, expected a positive number", path="graphs.csv", line=3))
    graphs.csv:3: size_bytes is -1, expected a positive number
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        argument: str | None = None,
        item: tuple[str, str | int] | None = None,
    ) -> None:
        self.reason, self.path, self.line, self.argument, self.item = message, path, line, argument, item
        super().__init__(self.text(argument))

    def text(self, argument: str | None) -> str:
        """Return the message with a name of the argument, such as that of an option."""
        place = "" if self.path is None else f"{self.path}:{self.line}: " if self.line else f"{self.path}: "
        return _shown(f"{place}{'' if argument is None else f'{argument} '}{self.reason}")


#: Maximum lengths in characters: longer words of input files and longer messages are truncated.
_LONGEST_WORD, _LONGEST_MESSAGE = 200, 1000
#: Number of names above which an error lists only those that are similar.
_MOST_NAMES = 40


def _shown(message: str) -> str:
    """Escape control characters of a message and truncate long words from input files."""
    clean = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in message
    )
    words = [word if len(word) <= _LONGEST_WORD else word[: _LONGEST_WORD - 3] + "..." for word in clean.split()]
    text = " ".join(words)
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


class UnknownSpeedError(InputError):
    """A topology without link speeds where no other input determines the rate of a copy."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.add_note("fc.load_machine(FILES, gpu=MODEL) returns a machine with the links of this model of GPU.")


class NoAcceleratorError(InputError):
    """A machine description without an accelerator."""


class PeerLinkError(InputError):
    """A copy between endpoints with a direct link, which does not use the PCIe tree."""


def near_names(name: str, known: Iterable[str]) -> str:
    """Return a "did you mean" suggestion for a misspelt name.

    The suggestion is empty if no known name is similar.

    >>> near_names("Max_mn", ["max_min", "literal"])
    " (did you mean 'max_min'?)"
    """
    by_letters = {one.lower(): one for one in known}
    typed = str(name)[:_LONGEST_WORD].lower()
    found = difflib.get_close_matches(typed, list(by_letters), n=3, cutoff=0.6)
    # The letter O in place of a zero.
    found = found or difflib.get_close_matches(typed.replace("o", "0"), list(by_letters), n=3, cutoff=0.8)
    near = [by_letters[one] for one in found]
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str], *, otherwise: str = "", **place: Any) -> InputError:
    """Return the error for an unknown name, with similar known names; of many names only with these.

    >>> print(unknown_name("routing", "directt", ["direct", "indirect"]))
    routing 'directt' is unknown (did you mean 'direct' or 'indirect'?), expected one of direct, indirect
    """
    names = list(map(str, known))
    near = near_names(name, names)
    if near and len(names) > _MOST_NAMES:
        return InputError(f"{kind} '{name}' is unknown{near}", **place)
    shown = (
        names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], f"or one of {len(names) - _MOST_NAMES} others"]
    )
    expected = f"{', '.join(shown)}{otherwise}"
    return InputError(f"{kind} '{name}' is unknown{near}, expected one of {expected}", **place)
