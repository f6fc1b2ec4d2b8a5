"""Readers of tables in CSV and Parquet: measured copies and pairs, congestion graphs, message times, parameters."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Kind, Place, Quantity
from fabricast.inputs.csv_files import MOST_ROWS
from fabricast.inputs.parquet_files import parquet_rows, parquet_table
from fabricast.pcie.measurements.files import RATE_COLUMNS, csv_copy_rows, parquet_copy_rows
from fabricast.pcie.measurements.pair_tables import PAIR_COLUMNS, csv_pair_rows
from fabricast.sources.text import Format, Reading, Text

#: Lines of comments that may precede the header.
_MOST_COMMENTS = 10_000


def columns_of(text: Text) -> tuple[str, ...]:
    """Return the names in the header of a CSV text; empty if the first line that is no comment is no header."""
    lines = (line for line in islice(text.raw.split("\n"), _MOST_COMMENTS) if line.strip() and not line.startswith("#"))
    header = next(lines, "")[:2000]
    if "," not in header:
        return ()
    try:
        return tuple(name.strip() for name in next(csv.reader([header]), []))
    except csv.Error:
        return ()


def _are_pairs(columns: Collection[str]) -> bool:
    return {*PAIR_COLUMNS} <= {*columns}


def _are_copies(columns: Collection[str]) -> bool:
    has_ends = {"source", "target"} <= {*columns} or bool({"communications", "comms"} & {*columns})
    return has_ends and bool({*RATE_COLUMNS, "elapsed_s"} & {*columns}) and not _are_pairs(columns)


def _are_graphs(columns: Collection[str]) -> bool:
    return {"source", "target"} <= {*columns} and not _are_copies(columns) and not _are_pairs(columns)


def _are_messages(columns: Collection[str]) -> bool:
    return {"processes", "size_bytes", "time_s"} <= {*columns}


def _are_parameters(columns: Collection[str]) -> bool:
    return {"study", "name", "value"} <= {*columns}


def _read_copies(text: Text) -> Iterator[Reading]:
    rows = csv_copy_rows(text.path, text.strict)
    yield Reading([text.fact(Quantity.COPY_ROWS, rows, rows[0].line, "table", kind=Kind.MEASURED)], line=1)


def _read_pairs(text: Text) -> Iterator[Reading]:
    rows = csv_pair_rows(text.path, text.strict)
    yield Reading([text.fact(Quantity.PAIR_ROWS, rows, rows[0].line, "table", kind=Kind.MEASURED)], line=1)


def _read_file(text: Text) -> Iterator[Reading]:
    # Tables of many rows are read by the reader of their command, block by block.
    yield Reading([text.fact(Quantity.FILE, (text.path, text.strict), 1, "table")], line=1)


#: Commands that read tables which a diagnosis does not use.
_READERS = {
    Content.GRAPHS: "fabricast predict",
    Content.MESSAGES: "fabricast fit",
    Content.PARAMETERS: "fabricast predict --parameters",
}


def _table(
    program: str,
    content: Content,
    command: str,
    header: str,
    is_kind: Callable[[Collection[str]], bool],
    read: Callable[[Text], Iterator[Reading]],
    example: str,
) -> Format:
    def recognises(text: Text) -> bool:
        return is_kind(columns_of(text))

    return Format(
        program,
        content,
        command,
        header,
        recognises,
        read,
        example,
        _READERS.get(content, ""),
        is_read_in_parts=read is _read_file,
        versions=f"CSV or Parquet with columns such as `{header}`",
    )


COPIES = _table(
    "table of measured copies",
    Content.COPIES,
    "fabricast probes machine.yaml --run -o copies.csv",
    "graph,source,target,rate_gb_per_s",
    _are_copies,
    _read_copies,
    "copies.csv",
)
_PAIRS = _table(
    "table of measured pairs",
    Content.COPIES,
    "a script of yours",
    "source,target,kind,value,unit",
    _are_pairs,
    _read_pairs,
    "pairs.csv",
)
GRAPHS = _table(
    "table of congestion graphs",
    Content.GRAPHS,
    "a script of yours",
    "graph,source,target,size_bytes,start_s",
    _are_graphs,
    _read_file,
    "graphs.csv",
)
_MESSAGES = _table(
    "table of message times",
    Content.MESSAGES,
    "fabricast collect osu_k1.out osu_k4.out -o messages.csv",
    "processes,size_bytes,time_s",
    _are_messages,
    _read_file,
    "messages.csv",
)
_PARAMETERS = _table(
    "table of model parameters",
    Content.PARAMETERS,
    "fabricast calibrate machine.yaml probes.csv -o parameters.csv",
    "study,system,name,value,unit,tag,source",
    _are_parameters,
    _read_file,
    "parameters.csv",
)
FORMATS = (COPIES, _PAIRS, GRAPHS, _MESSAGES, _PARAMETERS)
_KINDS = dict(zip((_are_copies, _are_pairs, _are_graphs, _are_messages, _are_parameters), FORMATS, strict=True))


def table_format(columns: Collection[str]) -> Format | None:
    """Return the format of a table with some columns; None if no format has them."""
    return next((found for is_kind, found in _KINDS.items() if is_kind(columns)), None)


def of_parquet(path: str, otherwise: Format) -> Block:
    """Return the block of a Parquet file; files without measured copies are left to the reader of their command."""
    place = Place(path)
    try:
        columns, table = parquet_table(path, lambda names: table_format(names) in (COPIES, _PAIRS), MOST_ROWS)
    except InputError as error:
        return Block(otherwise.program, otherwise.content, place, (), (error,))
    found = table_format(columns) or otherwise
    value: object = (path, None)
    quantity = Quantity.FILE
    try:
        if table is not None:
            quantity = Quantity.COPY_ROWS if found is COPIES else Quantity.PAIR_ROWS
            value = parquet_copy_rows(path, table) if found is COPIES else list(parquet_rows(Path(path), table))
    except InputError as error:
        return Block(found.program, found.content, place, (), (error,))
    return Block(found.program, found.content, place, (Fact(quantity, value, place, "table", kind=Kind.MEASURED),))
