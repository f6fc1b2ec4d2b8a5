"""Messages of libraries whose meaning is known, from the YAML files of this folder: a new message is one entry."""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from fabricast.inputs.yaml_files import load_model


class Lines(BaseModel):
    """Lines that state messages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: list[str] = []  # Only lines with one of these words are searched
    lines: list[str] = []  # Regular expressions of the lines; the last group is the message; none in nccl.yaml


class KnownProblem(Lines):
    """Meaning of a message."""

    says: str = ""  # Regular expression of the message; by default, its words
    name: str = ""  # Name in the code, where other facts decide about this problem
    example: str  # Line or message that it explains
    meaning: str  # Cause in a few words
    remedy: str  # Setting or command that changes it
    remedy_of_infiniband: str = ""  # The same where all network cards are InfiniBand, if it differs
    ends_run: bool = False  # Whether no process goes on after a line with this message
    is_failure: bool = True  # Whether the run fails; otherwise it may be slower
    is_costly: bool = False  # Whether a run that has results after it is slower
    is_consequence: bool = False  # Whether another message names the cause, if there is one
    is_general: bool = False  # Whether it says only that a call failed
    is_assembled: bool = False  # Whether the reader builds the message from several lines
    same_as: list[str] = []  # Meanings of messages that state the same more exactly

    @cached_property
    def expression(self) -> str:
        """Return the regular expression of the message."""
        return self.says or "|".join(map(re.escape, self.words))

    def remedy_for(self, *, is_infiniband: bool) -> str:
        """Return what changes it on machines with InfiniBand cards, or on others."""
        return (self.remedy_of_infiniband if is_infiniband else "") or self.remedy


class MessageTable(BaseModel):
    """Messages of a family of libraries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lines: list[Lines] = []  # Lines of libraries that print many messages
    ends_run: list[str] = []  # Regular expressions of other lines after which no process goes on
    problems: list[KnownProblem] = Field(min_length=1)  # The first whose expression a message contains decides

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return all words: a line with none of them has no message."""
        return tuple(dict.fromkeys(word for one in (*self.lines, *self.problems) for word in one.words))

    @cached_property
    def _messages(self) -> list[re.Pattern[str]]:
        return [re.compile(line) for one in (*self.lines, *self.problems) for line in one.lines]

    @cached_property
    def _ends(self) -> re.Pattern[str]:
        return re.compile("|".join([*self.ends_run, *(one.expression for one in self.problems if one.ends_run)]))

    def message(self, line: str) -> str | None:
        """Return the message that a line states; None if it states none."""
        matches = (match for one in self._messages if (match := one.search(line)) is not None)
        return next((str(match[match.lastindex or 0]).strip() for match in matches), None)

    def is_last(self, line: str) -> bool:
        """Return whether no process goes on after a line."""
        return self._ends.search(line) is not None

    def problem(self, message: str) -> KnownProblem | None:
        """Return the first problem whose expression a message contains; None if its meaning is unknown."""
        return next((one for one in self.problems if re.search(one.expression, message)), None)

    def named(self, name: str) -> KnownProblem:
        """Return the problem of a name."""
        return next(one for one in self.problems if one.name == name)


@cache
def message_table(name: str) -> MessageTable:
    """Return the table of a file of this folder.

    >>> message_table("nccl").problem("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000").meaning
    'two ranks use the same GPU'
    """
    return load_model(Path(__file__).with_name(f"{name}.yaml"), MessageTable)
