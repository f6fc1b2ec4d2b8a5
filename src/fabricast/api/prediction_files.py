"""Predictions of the graphs of a file, and their output as CSV and Parquet."""

from __future__ import annotations

import itertools
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fabricast.api.machine_inputs import GraphFile
from fabricast.api.methods import Method
from fabricast.api.prediction_table import Prediction
from fabricast.api.predictions import predict_graphs
from fabricast.api.predictor import Notes, Predictor
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.files import atomic_write
from fabricast.machine.machine import Machine
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.files import ScatteredGraphError, count_rows, graph_blocks, read_graphs
from fabricast.pcie.graphs.staged import staged_copies
from fabricast.runtime.jobs import progress_of
from fabricast.runtime.threads import prefetched

if TYPE_CHECKING:
    import pyarrow as pa


#: Number of rows per Parquet row group.
_GROUP_ROWS = 122_880
#: Number of copies with a random order from which the search for limiting copies shows its progress.
_SLOW_REMOVALS = 24


def graphs_of_file(machine: Machine, method: Method, file: GraphFile, size_bytes: float) -> CongestionGraphs:
    """Return the graphs of a file; models with engines support host memory as endpoints."""
    tree = machine.with_memory if method.is_engine_model else machine.tree
    return read_graphs(file.path, tree, size_bytes=size_bytes, programs=True, text=file.text)


def predict_file(
    machine: Machine,
    method: Method,
    file: GraphFile,
    output: Path,
    *,
    size_bytes: float,
    explain: bool,
    limited_by: bool | None,
    threads: int,
) -> list[CodedWarning] | None:
    """Predict the graphs of a file of any size block by block; return the warnings.

    None if the rows of a graph are not contiguous, so that the file must be read whole.
    """
    if limited_by is None:
        limited_by = explain and (file.text is not None or count_rows(file.path) <= method.most_explained)
    predictor = Predictor(machine, method, explain=explain, limited_by=limited_by, threads=threads)
    with suppress(ScatteredGraphError):
        return _predict_blocks(predictor, file, size_bytes, output, threads)
    return None


def _predict_blocks(
    predictor: Predictor, file: GraphFile, size_bytes: float, output: Path, threads: int
) -> list[CodedWarning]:
    reader = graph_blocks(file.path, predictor.tree, size_bytes=size_bytes, programs=True)
    sizes: deque[int] = deque()
    notes = Notes()

    def parts() -> Iterator[CongestionGraphs]:
        for graphs, size in prefetched(reader.blocks) if threads > 1 else reader.blocks:
            sizes.append(size)
            yield graphs

    with progress_of(f"predicting, {reader.unit}", reader.total) as advance:

        def tables() -> Iterator[Prediction]:
            nonlocal notes
            for found in predictor.predict_parts(parts()):
                notes += found.notes
                yield found.table
                size = sizes.popleft()
                # A file that is read as a single block has no progress to report.
                if size < reader.total:
                    advance(size)

        write_tables(tables(), output)
    return predictor.warnings(notes)


def predict_with_progress(
    machine: Machine,
    method: Method,
    graphs: CongestionGraphs,
    transport: str,
    *,
    explain: bool,
    limited_by: bool | None,
    threads: int,
) -> Prediction:
    """Predict graphs, and show the progress of the search for limiting copies if it lasts seconds."""
    if limited_by is None:
        limited_by = explain and graphs.source.size <= method.most_explained
    tree = machine.with_memory if method.is_engine_model else machine.tree
    is_staged = staged_copies(tree, graphs, method.transport(transport))
    slow = 0
    if limited_by and not is_staged.any():
        slow = Predictor(machine, method, explain=explain, limited_by=True, threads=threads).slow_removals(graphs)
    with progress_of("evaluating without each copy", slow if slow >= _SLOW_REMOVALS else 0) as advance:
        return predict_graphs(
            machine,
            graphs,
            method,
            is_staged,
            explain=explain,
            limited_by=limited_by,
            threads=threads,
            progress=advance if slow >= _SLOW_REMOVALS else None,
        )


def staged_beside(table: Prediction, machine: Machine, method: Method, graphs: CongestionGraphs, threads: int) -> None:
    """Add the times of copies that all pass through host memory, and the warnings that concern only these."""
    tree = machine.with_memory if method.is_engine_model else machine.tree
    every = staged_copies(tree, graphs, "staged")
    staged = predict_graphs(machine, graphs, method, every, explain=False, threads=threads)
    known: list[CodedWarning] = table.attrs["warnings"]
    table["staged_s"] = staged["elapsed_s"]
    texts = {warning.text for warning in known}
    more = [
        CodedWarning(WarningCode(one.code), f"staged copies: {one.text}")
        for one in staged.attrs["warnings"]
        if one.text not in texts
    ]
    table.attrs["warnings"] = [*known, *more]


def write_table(table: pd.DataFrame, output: Path) -> None:
    """Write a table to a .csv or .parquet file."""
    write_tables([table], output)


def write_tables(tables: Iterable[pd.DataFrame], output: Path) -> None:
    """Write a sequence of tables to one file, completely or not at all."""
    with atomic_write(output) as temporary:
        if output.suffix.lower() == ".csv":
            _write_csv(tables, temporary, output)
        else:
            _write_parquet(tables, temporary)


def _arrow_table(frame: pd.DataFrame) -> pa.Table:
    """Convert a data frame to Arrow, with categories as strings.

    All blocks of rows then have the same schema.
    """
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    fields = [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def _write_parquet(tables: Iterable[pd.DataFrame], path: Path) -> None:
    import pyarrow.parquet as pq

    blocks = map(_arrow_table, tables)
    first = next(blocks)
    with pq.ParquetWriter(path, first.schema, store_schema=False) as writer:
        for block in itertools.chain([first], blocks):
            writer.write_table(block, row_group_size=_GROUP_ROWS)


def _write_csv(tables: Iterable[pd.DataFrame], path: Path, output: Path) -> None:
    # Imported here because Parquet output does not need DuckDB.
    import pyarrow as pa

    from fabricast.results.connections import connect, quoted, report_full_disk

    # `atomic_write` removes files whose names start with its temporary name.
    part = path.with_name(f"{path.name}.next")
    with connect() as connection, report_full_disk(output), path.open("wb") as whole:
        connection.execute("SET threads = 1")
        for number, table in enumerate(tables):
            batch = _arrow_table(table)
            texts = [name for name in batch.schema.names if pa.types.is_string(batch.schema.field(name).type)]
            # CSV distinguishes an empty text from a missing one only by quotes.
            changed = ", ".join(f"nullif({name}, '') AS {name}" for name in texts)
            connection.register("elapsed", batch)
            connection.execute(
                f"COPY (SELECT * {f'REPLACE ({changed})' if texts else ''} FROM elapsed) TO '{quoted(str(part))}' "
                f"(FORMAT csv, HEADER {number == 0})"
            )
            with part.open("rb") as rows:
                shutil.copyfileobj(rows, whole)
