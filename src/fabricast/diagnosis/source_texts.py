"""Files as text: what was recognised in each, and what cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fabricast.core.facts import Block, Content, Quantity, SourceFile
from fabricast.sources.nccl_log import ERRORS, SETTINGS

#: Maximum number of tables that the text of a source lists.
_MOST_LISTED = 8
#: Number of files up to which alike ones are listed by name.
_MOST_ALIKE = 3
_NETWORKS_WITH_RATES = ("ibnetdiscover",)


def is_used(block: Block) -> bool:
    """Return whether a diagnosis uses a block."""
    if block.content is Content.NETWORK:
        return block.program in _NETWORKS_WITH_RATES
    return block.content not in (Content.GRAPHS, Content.PARAMETERS)


def source_texts(files: Iterable[SourceFile]) -> tuple[str, ...]:
    """Return what was recognised in each file, that of many alike files once."""
    alike: dict[str, list[SourceFile]] = {}
    for file in files:
        alike.setdefault(_text(file), []).append(file)
    lines = []
    for text, found in alike.items():
        is_whole = all(file.blocks and not any(block.problems for block in file.blocks) for file in found)
        if is_whole and len(found) > _MOST_ALIKE:
            lines.append(f"{found[0].path} and {len(found) - 1} more files: {text}")
        else:
            lines += [f"{file.path}: {text}" for file in found]
    return tuple(lines)


def _text(file: SourceFile) -> str:
    """Return what was recognised in a file, and parts that cannot be used."""
    if file.problem is not None:
        place = f" (line {file.problem.line})" if file.problem.line else ""
        return f"cannot be used: {file.problem.reason}{place}"
    if file.is_empty:
        return "not used, empty"
    if not file.blocks:
        start = "cannot be used: " if file.hint else "not used, "
        return f"{start}written by no known program{file.hint}"
    file_is_read = any(block.facts for block in file.blocks)
    problems = [
        f"{'a part cannot be used' if file_is_read else 'cannot be used'}: {problem.reason}"
        f"{f' (line {problem.line})' if problem.line else ''}"
        for block in file.blocks
        for problem in block.problems
    ]
    return "; ".join([*_parts(file), *problems])


def _parts(file: SourceFile) -> Iterator[str]:
    """Yield the contents of a file."""
    read = [block for block in file.blocks if block.facts]
    # Known output that says nothing about the machine.
    yield from dict.fromkeys(block.text for block in file.blocks if block.text and not block.facts)
    for content in dict.fromkeys(block.content for block in read):
        blocks = [block for block in read if block.content is content]
        if content is Content.COLLECTIVES:
            yield from _tables(blocks)
        elif not is_used(blocks[0]):
            yield f"{content} of {blocks[0].program}, not used{blocks[0].hint}"
        else:
            programs = ", ".join(dict.fromkeys(block.program for block in blocks))
            is_log = content is Content.NCCL_LOG and not {SETTINGS, ERRORS} & {block.program for block in blocks}
            yield str(content) if is_log else programs if content is Content.NCCL_LOG else f"{content} of {programs}"


def _tables(blocks: list[Block]) -> Iterator[str]:
    """Yield the first tables of nccl-tests, and the number of further ones."""
    tables = [str(fact.value) for block in blocks for fact in block.of(Quantity.COLLECTIVE)]
    yield from tables[:_MOST_LISTED] or [f"{blocks[0].program} without results"]
    unread = sum(fact.value for block in blocks for fact in block.of(Quantity.UNREAD_TABLES))
    more = len(tables[_MOST_LISTED:]) + unread
    if more:
        yield f"{more:,} more tables"
