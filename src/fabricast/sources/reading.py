"""Reading of files into facts: every file is opened once and cut into the blocks of the programs that wrote it."""

from __future__ import annotations

import hashlib
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Facts, Kind, Place, Quantity, SourceFile
from fabricast.inputs.files import LARGEST_TEXT_BYTES, MOST_LINES, decoded
from fabricast.inputs.gpus import is_known_gpu
from fabricast.pcie.topology.builtin import is_builtin, load_tree
from fabricast.sources.formats import all_formats, names_of
from fabricast.sources.nearest_program import next_step, resembled_format, unused_output
from fabricast.sources.report_sentences import stated_failure, stated_gpu
from fabricast.sources.tables import COPIES, columns_of, of_parquet, table_format
from fabricast.sources.text import Format, Text

#: Name of standard input.
STANDARD_INPUT = "-"
#: Size in bytes of the first part of a file, which decides whether it is a table that another reader reads.
_HEAD_BYTES = 1 << 16
#: First bytes of compressed files.
_GZIP = b"\x1f\x8b"
_TABLES = (".csv", ".parquet")


def read(paths: Iterable[Path | str], *, table: Format = COPIES) -> Facts:
    """Read files, built-in topologies by name, and standard input (``-``).

    Parts that cannot be read are problems of their block; files of unknown programs are kept without blocks. A file
    that is named twice is read once, because it would only agree with itself. Tables whose columns no format has are
    read as `table`, for its message about them.

    >>> [fact.value.name for fact in read(["storm8"]).of(Quantity.TOPOLOGY)]
    ['storm8']
    """
    return with_stated_models(Facts(tuple(_file(path, table) for path in dict.fromkeys(map(str, paths)))))


def with_stated_models(facts: Facts) -> Facts:
    """Return facts without models of GPUs by their PCI device, if a file names known models."""
    models = list(facts.of(Quantity.GPU_MODEL))
    names = [one.value for one in models if one.kind is Kind.STATED]
    names += [name for table in facts.values(Quantity.COLLECTIVE) for name in table.gpus]
    if all(one.kind is Kind.STATED for one in models) or not any(map(is_known_gpu, names)):
        return facts

    def is_kept(fact: Fact) -> bool:
        return fact.quantity is not Quantity.GPU_MODEL or fact.kind is not Kind.DATA_SHEET

    def stated(block: Block) -> Block:
        return replace(block, facts=tuple(filter(is_kept, block.facts)))

    return Facts(tuple(replace(file, blocks=tuple(map(stated, file.blocks))) for file in facts.files))


def facts_of_text(text: str, path: str = "text") -> Facts:
    """Return the facts of a text; `path` is its name in places and messages.

    >>> facts_of_text("GPU 0: NVIDIA L4 (UUID: GPU-1)").values(Quantity.GPU_MODEL)
    ['NVIDIA L4']
    """
    return Facts((_of_text(Text(path, text, text.encode()), COPIES),))


def unknown_text(*contents: Content) -> str:
    """Return the reason why a file is not used: no format with some contents has it."""
    return f"was written by no known program, expected output of {names_of(*contents)}"


def _file(path: str, table: Format) -> SourceFile:
    try:
        if path.lower().endswith(".parquet"):
            return SourceFile(path, (of_parquet(path, table),))
        if is_builtin(path) and not Path(path).exists():
            return SourceFile(path, (_builtin(path),))
        content = _content(path)
        if isinstance(content, Block):
            return SourceFile(path, (content,))
        raw = decoded(content, path, strict=False)
        if raw.count("\n") > MOST_LINES:
            raise InputError(f"has more than {MOST_LINES:,} lines, expected a shorter file", path=path)
        return replace(_of_text(Text(path, raw, content), table), sha256=hashlib.sha256(content).hexdigest())
    except InputError as error:
        return SourceFile(path, problem=error)


def _builtin(name: str) -> Block:
    place = Place(name)
    fact = Fact(Quantity.TOPOLOGY, load_tree(name), place, "built-in topology")
    return Block("built-in topology", Content.TOPOLOGY, place, (fact,))


def _content(path: str) -> bytes | Block:
    """Return the content of a file; a block for a large table that the reader of its command reads part by part."""
    try:
        if path == STANDARD_INPUT:
            return _limited(sys.stdin.buffer, path, b"")
        # `stat` does not block on a pipe without a writer; `open` does.
        kind = Path(path).stat().st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind) or stat.S_ISSOCK(kind):
            raise InputError("is a device, expected a file", path=path)
        if stat.S_ISDIR(kind):
            raise InputError(f"is a directory, expected files: {path.rstrip('/')}/*", path=path)
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if head.startswith(_GZIP):
                raise InputError("is compressed (gzip), expected its text: gunzip it", path=path)
            found = table_format(columns_of(Text(path, decoded(head, path, strict=False))))
            if stat.S_ISREG(kind) and len(head) == _HEAD_BYTES and found is not None and found.is_read_in_parts:
                place = Place(path)
                return Block(found.program, found.content, place, (Fact(Quantity.FILE, (path, None), place, "table"),))
            return _limited(file, path, head)
    except FileNotFoundError as error:
        if not Path(path).suffix:
            # The message lists the built-in topologies.
            load_tree(path)
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from error


def _limited(file: IO[bytes], path: str, head: bytes) -> bytes:
    content = head + file.read(LARGEST_TEXT_BYTES + 1)
    if len(content) > LARGEST_TEXT_BYTES:
        raise InputError(f"is larger than {LARGEST_TEXT_BYTES / 1e6:g} MB, expected a smaller file", path=path)
    return content


def _of_text(text: Text, table: Format) -> SourceFile:
    if not text.raw.strip():
        return SourceFile(text.path, is_empty=True)
    suffix = Path(text.path).suffix.lower()
    of_hosts = [
        (one, part)
        for part in text.by_host.values()
        for one in all_formats()
        if one.is_per_host and one.recognises(part)
    ]
    is_of_hosts = any(part.host for _, part in of_hosts)
    blocks = tuple(block for one, part in of_hosts if is_of_hosts for block in one.blocks(part))
    recognised = [one for one in all_formats() if not (is_of_hosts and one.is_per_host) and one.recognises(text)]
    if suffix in (".yaml", ".yml"):
        # A file of this name is a topology, whatever else its notes quote.
        recognised = recognised[:1]
    if suffix in _TABLES:
        recognised = [one for one in recognised if one.program.startswith("table")] or recognised or [table]
    blocks += tuple(block for one, part in _parts(text, recognised) for block in one.blocks(part))
    unused = unused_output(text) if not blocks else None
    if unused is not None:
        line, reason, is_unused = unused
        return SourceFile(text.path, problem=InputError(reason, path=text.path, line=line), is_unused=is_unused)
    near = resembled_format(text, all_formats()) if not blocks else None
    hint = "" if blocks else next_step(text.raw) if near is None else str(near)
    reader = near.reader if near else ""
    failure, gpu = (stated_failure(text), stated_gpu(text)) if blocks else ("", "")
    return SourceFile(text.path, blocks, hint=hint, reader=reader, failure=failure, stated_gpu=gpu)


def _parts(text: Text, formats: Sequence[Format]) -> Iterator[tuple[Format, Text]]:
    """Yield the formats with their text: lines of other programs are empty if both mark where their parts begin."""
    marked = [one for one in formats if one.heading is not None]
    if len(marked) < 2:
        yield from ((one, text) for one in formats)
        return
    current: Format | None = None
    lines: dict[str, list[str]] = {one.program: [""] * len(text.clean_lines) for one in marked}
    for number, line in enumerate(text.clean_lines):
        current = next((one for one in marked if one.heading is not None and one.heading.search(line)), current)
        if current is not None:
            lines[current.program][number] = line
    for one in formats:
        yield one, text if one.heading is None else Text(text.path, "\n".join(lines[one.program]))
