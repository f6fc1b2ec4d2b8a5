"""Text of a source, with and without the decoration of its lines, and errors with their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Kind, Place, Quantity
from fabricast.inputs.files import decoded
from fabricast.inputs.log_lines import clean_lines
from fabricast.sources.host_lines import lines_by_host

#: Largest text in characters whose clean lines are kept; larger logs are read line by line.
_LARGEST_KEPT = 16_000_000


#: Call that prints a message, in source code.
_PRINTS = re.compile(
    r"\b(?:[fs]?n?printf|WARN|INFO|\w*[lL]og\w*|LOG\w*|error|warning)\s?\(\s?(?:\w{1,20},\s?)?[fr]?[\"']"
)


def is_source_code(line: str) -> bool:
    """Return whether a line is code that prints a message, as in listings and tracebacks."""
    return "(" in line and _PRINTS.search(line) is not None


@dataclass(frozen=True)
class Text:
    """Text of a file.

    Parameters
    ----------
    path : str
        File, for places and messages.
    raw : str
        Text as it is in the file.
    content : bytes
        Content of the file, for formats that state an encoding.
    numbers : tuple of int
        Number in the file of each line; empty if the text is that of the file.
    host : str
        Host of all lines, if the file names it.
    """

    path: str
    raw: str
    content: bytes = b""
    numbers: tuple[int, ...] = ()
    host: str = ""

    @property
    def strict(self) -> str:
        """Text of a table or YAML file, which must be UTF-8."""
        return decoded(self.content, self.path, strict=True) if self.content else self.raw

    @cached_property
    def clean(self) -> str:
        """Text without decoration, with the same line numbers."""
        return "\n".join(self.clean_lines)

    @cached_property
    def clean_lines(self) -> list[str]:
        """Lines without decoration and trailing blanks."""
        return [line for _, line in clean_lines(self.raw)]

    def lines(self, keep: Callable[[str], bool] | None = None) -> Iterator[tuple[int, str]]:
        """Yield the number and text of the lines without decoration; `keep` selects raw lines of large texts."""
        if len(self.raw) > _LARGEST_KEPT:
            return clean_lines(self.raw, keep)
        return enumerate(self.clean_lines, start=1)

    def after(self, line: int) -> Iterator[str]:
        """Yield the lines after one of them, without decoration."""
        return (one for number, one in self.lines() if number > line)

    @cached_property
    def by_host(self) -> dict[str, Text]:
        """Text of each host, and under an empty name of other lines; no text unless most lines belong to a host."""
        hosts = lines_by_host(self.raw) if len(self.raw) <= _LARGEST_KEPT else {}
        return {
            host: Text(
                self.path, "\n".join(line for _, line in lines), numbers=tuple(number for number, _ in lines), host=host
            )
            for host, lines in hosts.items()
        }

    def place(self, line: int = 0) -> Place:
        """Return a line of the file as a place."""
        return Place(self.path, self._number(line))

    def _number(self, line: int) -> int:
        """Return the number in the file of a line of the text."""
        return self.numbers[line - 1] if 0 < line <= len(self.numbers) else line

    def fact(
        self,
        quantity: Quantity,
        value: object,
        line: int,
        program: str,
        *,
        subject: tuple[str, ...] = (),
        unit: str = "",
        kind: Kind = Kind.STATED,
    ) -> Fact:
        """Return a fact that a line of the file states."""
        return Fact(quantity, value, self.place(line), program, subject, unit, kind, self.host)

    def error(self, message: str, line: int | None = None) -> InputError:
        """Return an error with the place of a line."""
        return InputError(message, path=self.path, line=self._number(line or 0) or None)


@dataclass
class Reading:
    """Facts of a format in a text, and the parts that it could not read.

    Parameters
    ----------
    facts : list of Fact
        Facts.
    problems : list of InputError
        Parts that cannot be read.
    program : str
        Program with its version; by default the name of the format.
    line : int
        First line.
    text : str
        Description of the content in a few words.
    """

    facts: list[Fact] = field(default_factory=list)
    problems: list[InputError] = field(default_factory=list)
    program: str = ""
    line: int = 0
    text: str = ""


@dataclass(frozen=True)
class Format:
    """Format of a program's output.

    Parameters
    ----------
    program : str
        Name of the program.
    content : Content
        Kind of content.
    command : str
        Command that produces the file.
    sample : str
        Typical line, for suggestions about unknown files.
    recognises : callable
        Function that returns whether a text has output of the program.
    read : callable
        Function that yields one reading per block of the text. It raises `InputError` if nothing of a block is usable.
    example : str
        Name of an example in ``sources/examples``.
    reader : str
        Command that reads the file, if `fabricast diagnose` does not use it.
    heading : Pattern, optional
        First line of a part of the program, in texts with the output of several programs.
    is_read_in_parts : bool
        Whether the reader of its command reads a large file part by part.
    versions : str
        Versions and parts of the output that are read, for the documentation.
    is_per_host : bool
        Whether output of several hosts, as pdsh prints it, is one block for each of them.
    """

    program: str
    content: Content
    command: str
    sample: str
    recognises: Callable[[Text], bool]
    read: Callable[[Text], Iterator[Reading]]
    example: str = ""
    reader: str = ""
    heading: re.Pattern[str] | None = None
    is_read_in_parts: bool = False
    versions: str = ""
    is_per_host: bool = False

    def blocks(self, text: Text) -> Iterator[Block]:
        """Yield the blocks of this format in a text; a damaged text is a block without facts."""
        try:
            for reading in self.read(text):
                if self.content is Content.STATES and not (reading.facts or reading.problems or reading.text):
                    # Without a fact, the output would be unknown.
                    reading.facts.append(text.fact(Quantity.NOTE, f"no fault in {self.program}", 0, self.program))
                first = min((fact.place.line for fact in reading.facts if fact.place.line), default=0)
                yield Block(
                    reading.program or self.program,
                    self.content,
                    text.place(reading.line) if reading.line else Place(text.path, first),
                    tuple(reading.facts),
                    tuple(reading.problems),
                    reading.text,
                    self.reader,
                )
        except InputError as error:
            problem = error if error.path is not None else text.error(error.reason, error.line)
            yield Block(self.program, self.content, Place(text.path, problem.line or 0), (), (problem,))
        except ValueError as error:
            problem = InputError(f"is not valid output of {self.program}: {error}", path=text.path)
            yield Block(self.program, self.content, text.place(), (), (problem,))
