"""Commands of two runs: in which words they differ."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from fabricast.core.facts import Facts, Place, Quantity
from fabricast.core.short_text import shortened

_MOST_WORDS = 120
_LONGEST = 80


def different_commands(facts: Facts, places: Sequence[Place]) -> str:
    """Return in which words the commands above two tables differ; empty without two different commands.

    Parameters
    ----------
    facts : Facts
        Facts of the files.
    places : sequence of Place
        First row of each table.
    """
    if len(places) != 2:
        return ""
    commands = [command for place in places if (command := _command_above(facts, place)) is not None]
    if len(commands) != 2 or commands[0] == commands[1]:
        return ""
    one, other = differences(*(command.split()[:_MOST_WORDS] for command in commands))
    return f"; the commands differ: {_quoted(one)} and {_quoted(other)}"


def _command_above(facts: Facts, place: Place) -> str | None:
    """Return the last command above a row of a file."""
    above = [
        fact for fact in facts.of(Quantity.COMMAND) if fact.place.path == place.path and fact.place.line < place.line
    ]
    return max(above, key=lambda fact: fact.place.line).value if above else None


def differences(one: Sequence[str], other: Sequence[str]) -> tuple[str, str]:
    """Return the words in which two commands differ, values with their options.

    >>> differences("mpirun --map-by core osu_latency".split(), "mpirun --map-by numa osu_latency".split())
    ('--map-by core', '--map-by numa')
    >>> differences("osu_bw H D".split(), "osu_bw D H".split())
    ('H D', 'D H')
    """
    parts: list[list[str]] = [[], []]
    changes = [
        change for change in SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if change[0] != "equal"
    ]
    if sorted(one) == sorted(other) and changes:
        # The same words in another order: from the first to the last that differs.
        first, last = changes[0], changes[-1]
        changes = [("replace", first[1], last[2], first[3], last[4])]
    for _, begin, end, other_begin, other_end in changes:
        option = _words_of_option(one[:begin]) if end > begin and not one[begin].startswith("-") else 0
        parts[0] += one[begin - option : end]
        parts[1] += other[other_begin - option : other_end]
    return " ".join(parts[0]), " ".join(parts[1])


def _words_of_option(before: Sequence[str]) -> int:
    """Return the number of words that name the option of the value that follows: 2 for ``--mca pml``."""
    if before[-2:-1] in (["-mca"], ["--mca"]):
        return 2
    return int(bool(before) and before[-1].startswith("-"))


def _quoted(words: str) -> str:
    """Return words in quotation marks, shortened; or that there are none."""
    return f"'{shortened(words, _LONGEST)}'" if words else "nothing"
