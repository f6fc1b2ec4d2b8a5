"""Agreement of the CSV, Parquet and row-by-row readers."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import duckdb
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fabricast.core.errors import InputError
from fabricast.inputs import csv_columns
from fabricast.maxrate import measurements
from fabricast.maxrate.measurements import read_measurements
from fabricast.networks import matrices
from fabricast.networks.matrices import read_matrix
from fabricast.sources import tables
from tests.machines import read_copies

TEXTS = ["a", "b", "a b", " a", "", "NaN", '"x,y"', '"q"', "01", "_"]
NUMBERS = ["1", "2", "1e3", "+4", " 5 ", "0", "-1", "1.5", "", "nan", "inf", "1e400", "1_000", "x", '"3"', "1e-6"]
PAIRS = {"source": NUMBERS, "target": NUMBERS, "size_bytes": NUMBERS}
CELLS = {
    "processes": NUMBERS,
    "size_bytes": NUMBERS,
    "time_s": ["1e-6", "2e-6", "1", *NUMBERS],
    "dataset": TEXTS,
    "system": TEXTS,
    "convention": ["one_way", "round_trip", *TEXTS],
    "estimator": TEXTS,
    "repetitions": NUMBERS,
    "spread": NUMBERS,
}


@st.composite
def files(draw, fields, required):
    """Draw a CSV file with columns in any order.

    Half of the files have only valid fields; some files have a row of another length.
    """
    others = [name for name in fields if name not in required]
    more = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    heading = draw(st.permutations([*required, *more]))
    usual = {name: values[:3] for name, values in fields.items()}
    values = fields if draw(st.booleans()) else usual
    rows = draw(st.lists(st.tuples(*(st.sampled_from(values[name]) for name in heading)), min_size=1, max_size=4))
    lines = [",".join(row) for row in rows]
    number = draw(st.integers(0, 3 * len(lines)))
    if number < len(lines):
        lines[number] = draw(st.sampled_from([lines[number] + ",1", lines[number].rpartition(",")[0], ""]))
    return "\n".join([",".join(heading), *lines]) + draw(st.sampled_from(["\n", ""]))


def outcome(read, path):
    try:
        result = read(path)
    except InputError as error:
        return str(error)
    if isinstance(result, pd.DataFrame):
        return repr((result.to_dict("list"), result.dtypes.to_dict()))
    return repr([values.tolist() for values in result[:3]] + [result[3]])


def same_by_both_parsers(read, text):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(text.encode())
        with mock.patch.object(csv_columns, "_parsed_by_pandas", lambda *_: None):
            parsed_by_python = outcome(read, path)
        assert outcome(read, path) == parsed_by_python


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pytest turns warnings into errors, users only see them
@settings(max_examples=300)
@example("source,target,size_bytes\n0,1,5,9\n")
@example("# taken by hand\nsource,target,size_bytes\n0,1,5\n")
@given(files(PAIRS, PAIRS))
def test_both_parsers_agree_for_pairs_of_ranks(text):
    same_by_both_parsers(read_matrix, text)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=300)
@example("processes,size_bytes,time_s,spread\n1,2,1e-6\n")
@example("processes,size_bytes,time_s\n1,2,1e-6\n1,2,2e-6\n")
@given(files(CELLS, ["processes", "size_bytes", "time_s"]))
def test_both_parsers_agree_for_measurements(text):
    same_by_both_parsers(read_measurements, text)


def as_parquet(folder, text):
    (folder / "table.csv").write_text(text)
    path = folder / "table.parquet"
    with duckdb.connect() as connection:
        connection.read_csv(str(folder / "table.csv")).write_parquet(str(path))
    return path


def test_parquet_and_csv_have_equal_results(tmp_path):
    parquet = read_matrix(as_parquet(tmp_path, "source,target,size_bytes\n0,1,5\n2,0,1e6\n1,1,3\n"))
    for values, expected in zip(parquet, read_matrix(tmp_path / "table.csv"), strict=True):
        assert_array_equal(values, expected)
    text = "time_s,processes,size_bytes,dataset,repetitions,spread\n1e-6,1,8,a,3,\n2e-6,2,8,b,,0.1\n"
    parquet = read_measurements(as_parquet(tmp_path, text))
    pd.testing.assert_frame_equal(parquet, read_measurements(tmp_path / "table.csv"))


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_matrix, "source,target,size_bytes\n0,1,5\n0,1.5,5\n", "row 2: expected ranks that are whole numbers"),
        (read_matrix, "source,target\n0,1\n", "lacks the column 'size_bytes', expected source, target, size_bytes"),
        (read_matrix, "source,target,size_bytes,more\n0,1,5,6\n", "has the unknown column 'more'"),
        (read_matrix, "source,target,size_bytes\n0,1,big\n", "column 'size_bytes' is of type string, expected numbers"),
        (read_measurements, "processes,size_bytes,time_s\n1,2,1\n1,2,2\n", "row 2: repeats a cell"),
        (read_measurements, "processes,size_bytes,time_s,convention\n1,2,1,both\n", "row 1: convention is 'both'"),
    ],
)
def test_invalid_parquet_is_reported(tmp_path, read, text, message):
    with pytest.raises(InputError, match=message):
        read(as_parquet(tmp_path, text))


@pytest.mark.parametrize(
    ("read", "columns"),
    [
        (read_matrix, "0 AS source, 1 AS target, 2 AS size_bytes"),
        (read_measurements, "1 AS processes, 2 AS size_bytes, 1 AS time_s"),
    ],
)
def test_parquet_without_rows_is_rejected(tmp_path, read, columns):
    path = tmp_path / "table.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns} WHERE false) TO '{path}' (FORMAT parquet)")
    with pytest.raises(InputError, match="contains no rows"):
        read(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_endings_after_a_comment(tmp_path, end):
    (tmp_path / "pairs.csv").write_bytes(end.join(["# by hand", "source,target,size_bytes", "0,2,7", ""]).encode())
    assert read_matrix(tmp_path / "pairs.csv")[2].tolist() == [7.0]


@pytest.mark.parametrize(
    ("read", "module", "limit", "text"),
    [
        (read_matrix, matrices, "_LARGEST_PAIRS", "source,target,size_bytes\n0,1,5\n0,2,5\n"),
        (read_measurements, measurements, "MOST_ROWS", "processes,size_bytes,time_s\n1,2,1\n2,2,1\n"),
        (read_copies, tables, "MOST_ROWS", "graph,source,target,rate_gb_per_s\na,0,1,5\nb,1,0,5\n"),
    ],
)
def test_rows_of_parquet_are_counted_before_they_are_read(tmp_path, monkeypatch, read, module, limit, text):
    path = as_parquet(tmp_path, text)
    read(path)
    monkeypatch.setattr(module, limit, 1)
    with pytest.raises(InputError, match="contains 2 rows, expected at most 1"):
        read(path)


def test_file_name_is_not_a_glob_pattern(tmp_path):
    as_parquet(tmp_path, "source,target,size_bytes\n0,1,5\n").rename(tmp_path / "run1.parquet")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_matrix(tmp_path / "run*.parquet")
    as_parquet(tmp_path, "source,target,size_bytes\n0,2,7\n").rename(tmp_path / "run[1].parquet")
    assert read_matrix(tmp_path / "run[1].parquet")[2].tolist() == [7.0]
