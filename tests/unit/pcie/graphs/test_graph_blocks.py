"""Graphs read in blocks, compared with graphs read from whole files."""

import dataclasses
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.inputs import csv_columns
from fabricast.inputs.files import line_blocks
from fabricast.pcie.graphs import files as graph_files
from fabricast.pcie.graphs.files import ScatteredGraphError, graph_blocks, read_graphs
from fabricast.pcie.topology.builtin import load_tree

STORM8 = load_tree("storm8")
HEADER = "graph,source,target\n"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(graph_files, "_BLOCK_BYTES", 30)
    monkeypatch.setattr(graph_files, "_BLOCK_ROWS", 2048)


def written(folder, text):
    path = folder / "graphs.csv"
    path.write_bytes(text.encode())
    return path


def rows_of(graphs):
    """Return one tuple per copy, in order."""
    names = np.repeat(graphs.names, np.diff(graphs.offset)).tolist()
    columns = (getattr(graphs, field.name).tolist() for field in dataclasses.fields(graphs)[3:7])
    return list(zip(names, *columns, strict=True))


def rows_in_blocks(path):
    graphs_of_file = graph_blocks(path, STORM8, size_bytes=7.0)
    blocks = list(graphs_of_file.blocks)
    assert sum(size for _, size in blocks) == graphs_of_file.total
    return [row for graphs, _ in blocks for row in rows_of(graphs)], len(blocks)


lines = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([(0, 1), (5, 2), (7, 0)]), st.sampled_from(["", '# a "note\n', "\n"])),
    min_size=1,
    max_size=25,
)


@pytest.mark.slow
@given(lines, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from(["g{}", '"g, {}"', '"g\n{}"']))
def test_blocks_contain_the_same_rows_in_the_same_order(lines, end, is_marked, name):
    step, text = 0, ("\ufeff" if is_marked else "") + HEADER.replace("\n", end)
    for later, (source, target), before in lines:
        step += later
        text += f"{before}{name.format(step)},{source},{target}{end}"
    with TemporaryDirectory() as folder:
        path = written(Path(folder), text)
        # Comments count as bytes of the file but do not contain graphs.
        blocks = [rows_of(graphs) for graphs, _ in graph_blocks(path, STORM8, size_bytes=7.0).blocks]
        assert list(itertools.chain(*blocks)) == rows_of(read_graphs(path, STORM8, size_bytes=7.0))


FIELDS = {
    "graph": st.sampled_from(["a", "b", "01", "1", "a b", " a", "b ", '"x,y"', '"q"', "", "NaN", "None"]),
    "source": st.sampled_from(["0", "1", "2", " 1", "01", "1.0", "+1", "", "NaN", '"2"', "8"]),
    "target": st.sampled_from(["3", "4", "5"]),
    "size_bytes": st.sampled_from(["1e6", "5", "0", "-1", "", "nan", "x"]),
    "start_s": st.sampled_from(["0", "0.5", "1e9"]),
    "program": st.sampled_from(["", "torch"]),
}
HEADINGS = st.lists(st.sampled_from(["size_bytes", "start_s", "program"]), unique=True).flatmap(
    lambda more: st.permutations(["graph", "source", "target", *more])
)


@st.composite
def odd_files(draw):
    """Draw CSV with unusual fields or with rows of wrong length."""
    heading = draw(HEADINGS)
    rows = draw(st.lists(st.tuples(*(FIELDS[name] for name in heading)), min_size=1, max_size=5))
    change = draw(st.sampled_from(["", "", "more", "less"]))
    changed = draw(st.sampled_from(["all", "first", "last"]))
    lines = [",".join(row) for row in rows]
    for number, row in enumerate(rows):
        if change and changed in ("all", "first" if number == 0 else "", "last" if number == len(rows) - 1 else ""):
            lines[number] = ",".join([*row, "z"] if change == "more" else row[:-1])
    return "\n".join([",".join(heading), *lines]) + "\n"


def outcome(path):
    try:
        return repr(read_graphs(path, STORM8, size_bytes=7.0, programs=True))
    except InputError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # warnings are not errors for users
@settings(max_examples=300)
@example(HEADER + "a,0,1,z\n")
@example(HEADER + " a,0,1\n")
@example("graph,source,target,program\na,0,1\n")
@given(odd_files())
def test_both_parsers_agree(text):
    with TemporaryDirectory() as folder:
        path = written(Path(folder), text)
        with mock.patch.object(csv_columns, "_parsed_by_pandas", lambda *_: None):
            parsed_by_python = outcome(path)
        assert outcome(path) == parsed_by_python


def test_blocks_are_small_and_report_progress(tmp_path):
    text = HEADER + "".join(f"g{k // 3},{k % 7},7\n" for k in range(60))
    rows, blocks = rows_in_blocks(written(tmp_path, text))
    assert blocks > 10
    assert rows == rows_of(read_graphs(tmp_path / "graphs.csv", STORM8, size_bytes=7.0))


def test_parquet_is_read_in_blocks(tmp_path):
    number = np.arange(7001)
    rows = pd.DataFrame({"graph": number // 10, "source": number % 7, "target": 7, "start_s": number / 1e3})
    path = tmp_path / "graphs.parquet"
    duckdb.from_df(rows).write_parquet(str(path))
    block_rows, blocks = rows_in_blocks(path)
    assert blocks > 3
    assert block_rows == rows_of(read_graphs(path, STORM8, size_bytes=7.0))


WRONG = {
    "an unknown endpoint": ("g9,0,8\n", "target is '8'"),
    "a line that is cut": ("g9,0\n", "has 2 fields, expected 3"),
    "a number that is none": ("g9,0,0\n", "both '0'"),
    "NUL": ("g9,0,\0\n", "contains a NUL byte"),
    "an open quote": ('"g9,0,1\n', "is not CSV"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_line_is_reported_and_no_output_is_written(tmp_path, name):
    wrong, message = WRONG[name]
    path = written(tmp_path, HEADER + "# note\n" + "".join(f"g{k},0,1\n" for k in range(20)) + wrong)
    output = tmp_path / "out.csv"
    output.write_text("as before")
    result = CliRunner().invoke(app, ["predict", "storm8", str(path), "-o", str(output)])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(f"{path}:")
    assert message in str(result.exception)
    if name != "an open quote":
        assert str(result.exception).startswith(f"{path}:23:")
    assert output.read_text() == "as before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["graphs.csv", "out.csv"]


def test_an_invalid_parquet_row_is_reported(tmp_path):
    path = tmp_path / "graphs.parquet"
    duckdb.sql(
        f"COPY (SELECT range AS graph, 0 AS source, if(range = 5000, 9, 1) AS target FROM range(6000)) TO '{path}'"
    )
    with pytest.raises(InputError, match="row 5001: target is '9'"):
        rows_in_blocks(path)


def answer(read):
    try:
        return read()
    except (InputError, ScatteredGraphError) as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "odd",
    [
        {"graph": "two words"},
        {"graph": "Größe"},
        {"graph": " padded"},
        {"graph": ""},
        {"graph": None},
        {"source": " 3 "},
        {"source": "\t3"},
        {"source": None},
        {"source": "host"},
        {"target": "it's"},
        {"size_bytes": -1.0},
        {"size_bytes": float("nan")},
    ],
)
@pytest.mark.parametrize("row", [0, 4095, 4096, 6999])
def test_unusual_parquet_rows_are_read_in_blocks_as_in_whole_files(tmp_path, odd, row):
    number = np.arange(7000)
    rows = pd.DataFrame(
        {"graph": [f"g{k}" for k in number // 7], "source": (number % 7).astype(str), "target": "7", "size_bytes": 1e6},
        dtype=object,
    )
    [(column, value)] = odd.items()
    rows.loc[row, column] = value
    path = tmp_path / "graphs.parquet"
    rows = rows.astype({"size_bytes": float})
    duckdb.from_df(rows).write_parquet(str(path))
    expected = answer(lambda: rows_of(read_graphs(path, STORM8, size_bytes=7.0)))
    result = answer(lambda: rows_in_blocks(path)[0])
    if result == (ScatteredGraphError, ""):
        # The rows of a graph are not contiguous if another graph interrupts them.
        assert column == "graph"
        assert rows["graph"][row - 1 : row + 2].nunique() > 1
    else:
        assert result == expected


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: content[:-9],
        lambda content: content.replace(b"g5000", b"g\xff000"),
        lambda content: content.replace(b"graph", b"gr\xffph"),
    ],
)
def test_damaged_parquet_files_are_reported(tmp_path, damaged):
    path = tmp_path / "graphs.parquet"
    duckdb.sql(
        f"COPY (SELECT 'g' || range AS graph, '0' AS source, '1' AS target FROM range(6000)) TO '{path}' "
        "(ROW_GROUP_SIZE 2048, COMPRESSION uncompressed)"
    )
    content = path.read_bytes()
    path.write_bytes(damaged(content))
    assert path.read_bytes() != content
    for read in (rows_in_blocks, lambda path: read_graphs(path, STORM8, size_bytes=7.0)):
        with pytest.raises(InputError, match=r"graphs\.parquet: is not a readable Parquet file \([^)]"):
            read(path)


def test_memory_errors_are_not_reported_as_damaged_files(tmp_path, monkeypatch):
    path = tmp_path / "graphs.parquet"
    duckdb.sql(f"COPY (SELECT 'g' AS graph, 0 AS source, 1 AS target) TO '{path}'")

    def full(*_):
        raise MemoryError

    monkeypatch.setattr("fabricast.inputs.parquet_files._categories", full)
    for read in (rows_in_blocks, lambda path: read_graphs(path, STORM8, size_bytes=7.0)):
        with pytest.raises(MemoryError):
            read(path)


def test_recurring_graphs_in_parquet_are_scattered(tmp_path):
    path = tmp_path / "graphs.parquet"
    duckdb.sql(f"COPY (SELECT range % 3000 AS graph, 0 AS source, 1 AS target FROM range(6000)) TO '{path}'")
    with pytest.raises(ScatteredGraphError):
        rows_in_blocks(path)
    assert len(read_graphs(path, STORM8, size_bytes=7.0)) == 3000


@pytest.mark.slow
def test_parquet_with_too_many_rows_is_rejected_before_reading(tmp_path):
    path = tmp_path / "graphs.parquet"
    duckdb.sql(f"COPY (SELECT 'g' AS graph, 0 AS source, 1 AS target FROM range(10000001)) TO '{path}'")
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"graphs.parquet: contains 10,000,001 rows, expected at most 10,000,000"):
        read_graphs(path, STORM8, size_bytes=7.0)


@pytest.mark.parametrize("names", ["abab", "abbbbbbbbbbbbbbbbba", "aaaaaaabbbbbbbbbbbbba"])
def test_a_file_with_scattered_graphs_is_read_whole_or_rejected(tmp_path, monkeypatch, names):
    path = written(tmp_path, HEADER + "".join(f"{name},0,1\n" for name in names))
    with pytest.raises(ScatteredGraphError):
        rows_in_blocks(path)
    arguments = ["predict", "storm8", str(path), "-o", str(tmp_path / "out.csv")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert pd.read_csv(tmp_path / "out.csv")["graph"].tolist() == sorted(names)
    monkeypatch.setattr(graph_files, "LARGEST_TEXT_BYTES", 40)
    with pytest.raises(InputError, match="rows of a graph in several places"):
        rows_in_blocks(path)


@pytest.mark.parametrize("text", ["", "# only a note\n" * 5, HEADER])
def test_a_file_without_rows_is_rejected(tmp_path, text):
    with pytest.raises(InputError, match="is empty|contains no rows"):
        rows_in_blocks(written(tmp_path, text))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_do_not_depend_on_the_block_size(tmp_path, monkeypatch, suffix):
    path = written(tmp_path, HEADER + "".join(f"g{k // 3},{k % 4},{4 + 4 * (k % 3)}\n" for k in range(50)))
    files, notes = [], []
    for size in (30, 10_000):
        monkeypatch.setattr(graph_files, "_BLOCK_BYTES", size)
        # Brackets in a file name must not be interpreted as a pattern.
        files.append(tmp_path / f"[{size}].{suffix}")
        result = CliRunner().invoke(
            app, ["predict", "flat4x4", str(path), "--bandwidth", "12GiB/s", "-o", str(files[-1])]
        )
        assert result.exit_code == 0, result.output
        notes.append([line for line in result.stderr.splitlines() if "warning:" in line])
    small, whole = (
        pd.read_csv(file)
        if suffix == "csv"
        else duckdb.sql(f"FROM read_parquet('{tmp_path}/[[]{file.stem[1:]}.parquet')").df()
        for file in files
    )
    pd.testing.assert_frame_equal(small, whole)
    assert len(small) == 50
    assert notes[0] == notes[1]
    assert any("writes from one uplink" in line for line in notes[0])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_output_does_not_depend_on_the_number_of_threads(tmp_path, monkeypatch, suffix):
    path = written(tmp_path, HEADER + "".join(f"g{k // 3},{k % 4},{4 + k % 4}\n" for k in range(90)))
    monkeypatch.setattr(graph_files, "_BLOCK_BYTES", 60)
    outputs = set()
    for threads in ("1", "2", "5"):
        output = tmp_path / f"{threads}.{suffix}"
        result = CliRunner().invoke(app, ["predict", "storm8", str(path), "--threads", threads, "-o", str(output)])
        assert result.exit_code == 0, result.output
        outputs.add(output.read_bytes())
    assert len(outputs) == 1


def test_blocks_consist_of_whole_counted_lines(tmp_path):
    path = written(tmp_path, 'a\n"b\nb\nb"\nc\nd')
    assert list(line_blocks(path, 3)) == [('a\n"b\nb\nb"\n', 0), ("c\nd", 4)]
    with pytest.raises(InputError, match="cannot be read"):
        list(line_blocks(tmp_path / "none.csv", 3))


def test_an_unterminated_line_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr("fabricast.inputs.files.LARGEST_TEXT_BYTES", 100)
    path = written(tmp_path, "a\n" + "b" * 200)
    with pytest.raises(InputError, match=r"graphs\.csv:1: contains a line or a quoted field of more than"):
        list(line_blocks(path, 2))
