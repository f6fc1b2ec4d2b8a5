"""The one exception that foreign input raises, and how it reads."""

from __future__ import annotations

from pathlib import Path

__all__ = ["InputError"]


class InputError(ValueError):
    """Foreign input that is refused at the door, told in one line.

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
        place = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(place + " ".join(message.split()))
