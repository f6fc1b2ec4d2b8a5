"""Output of tables as CSV and Parquet."""

import csv
import json
import weakref

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fabricast as fc
from fabricast.api.prediction_files import write_tables
from fabricast.cli.main import app
from fabricast.cli.output import elapsed_lines, write_elapsed
from fabricast.core.errors import InputError

TEXTS = st.none() | st.sampled_from(["", "a", "a,b", 'say "x"', "Größe", "two\nlines", " b "])
NUMBERS = st.floats(allow_nan=False) | st.sampled_from([float("inf"), 1e300, 5e-324, 0.1 + 0.2])
ROWS = st.lists(st.tuples(TEXTS, NUMBERS, st.integers(-(2**62), 2**62)), min_size=1, max_size=20)


def table(rows):
    texts, numbers, counts = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "text": pd.Categorical(texts),
            "number": np.array(numbers, dtype=np.float64),
            "count": np.array(counts, dtype=np.int64),
        }
    )


def values(rows):
    return [tuple(row) for row in rows]


@pytest.mark.slow
@given(st.lists(ROWS, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_written_tables_are_read_back_in_order(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("written")
    expected = [row for part in parts for row in part]
    for name in ("out.parquet", "out.csv"):
        write_tables(map(table, parts), folder / name)
    assert values(duckdb.sql(f"FROM '{folder}/out.parquet'").fetchall()) == expected
    with open(folder / "out.csv", newline="", encoding="utf-8") as file:
        header, *written_rows = csv.reader(file)
    assert header == ["text", "number", "count"]
    # CSV does not distinguish an empty text from a missing one.
    assert [(text, float(number), int(count)) for text, number, count in written_rows] == [
        (text or "", number, count) for text, number, count in expected
    ]
    assert {file.name for file in folder.iterdir()} == {"out.parquet", "out.csv"}


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_errors_of_the_iterable_are_raised_and_nothing_is_written(tmp_path, name, after):
    output = tmp_path / name
    output.write_text("as before")

    def parts():
        for number in range(after):
            yield table([("a", float(number), number)] * 3000)
        raise InputError("is wrong", path="graphs.csv", line=7)

    with pytest.raises(InputError, match=r"^graphs.csv:7: is wrong$"):
        write_tables(parts(), output)
    assert output.read_text() == "as before"
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_few_tables_are_in_memory_at_the_same_time(tmp_path):
    numbers, most = [], 0

    def parts():
        nonlocal most
        for number in range(20):
            values = np.full(1000, number, dtype=np.int64)
            numbers.append(weakref.ref(values))
            yield pd.DataFrame({"number": values}, copy=False)
            del values
            most = max(most, sum(one() is not None for one in numbers))

    write_tables(parts(), tmp_path / "out.parquet")
    assert most <= 4
    counts = duckdb.sql(f"SELECT number, count(*) FROM '{tmp_path}/out.parquet' GROUP BY ALL ORDER BY ALL").fetchall()
    assert counts == [(number, 1000) for number in range(20)]


def test_rows_are_independent_of_the_number_of_tables(tmp_path):
    rows = [(f"g{number // 3}", number / 7, number) for number in range(5000)]
    write_elapsed(table(rows), tmp_path / "whole.parquet")
    write_tables((table(rows[first : first + 700]) for first in range(0, 5000, 700)), tmp_path / "parts.parquet")
    whole, parts = (duckdb.sql(f"FROM '{tmp_path}/{name}.parquet'").fetchall() for name in ("whole", "parts"))
    assert whole == parts


def test_printed_lines_name_some_limiting_copies_and_files_all():
    times = fc.predict("storm16", [(0, target) for target in range(1, 16)], bandwidth="12 GB/s")
    last = times["limited_by"].tolist()[-1].split(" ")
    assert len(last) == 14 and all(">" in copy for copy in last)
    assert f"{' '.join(last[:8])} (6 more)" in elapsed_lines(times)[-2]


def test_simulated_copies_are_printed_like_forecasts():
    asked = ["simulate", "storm8", "--copies", "0>2 1>4", "--format", "table"]
    table = CliRunner().invoke(app, asked).output
    assert "copy MiB" in table and "copies: all copies complete after" in table and "43.7 to 43.7" not in table
    assert json.loads(CliRunner().invoke(app, [*asked[:-1], "json"]).stdout)[0]["source"] == "0"
