"""The format that a text of unknown origin resembles most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

from fabricast.sources.text import Format, Text

#: Similarity below which a line is of another kind.
_LEAST = 0.55
_MOST_LINES = 300
_MOST_LETTERS = 160


@dataclass(frozen=True)
class Resemblance:
    """Known format that a text resembles."""

    line: int  # Most similar line of the text
    program: str  # Program or file
    reader: str  # Command of fabricast that reads it, if few do; else empty
    expected: str  # Line that the program prints

    def __str__(self) -> str:
        command = f" ('{self.reader}')" if self.reader else ""
        return f"; line {self.line} resembles {self.program}{command}, which prints '{self.expected}' there"


def resembled_format(text: Text, formats: Sequence[Format]) -> Resemblance | None:
    """Return the format whose typical line is most like a line of a text; None if none is alike."""
    best, found = _LEAST, None
    lines = ((number, " ".join(line.split())[:_MOST_LETTERS]) for number, line in text.lines() if line.strip())
    for number, line in islice(lines, _MOST_LINES):
        for one in formats:
            matcher = SequenceMatcher(None, line, one.sample, autojunk=False)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
                best = matcher.ratio()
                found = Resemblance(number, one.program, one.reader, one.sample)
    return found
