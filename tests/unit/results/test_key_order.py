"""Sort order of table rows, compared with DuckDB."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.results import key_order as module
from fabricast.results import tables
from fabricast.results.connections import connect
from fabricast.results.key_order import key_order
from fabricast.results.tables import read_table, write_table

TYPES = {"text": "VARCHAR", "kind": "ENUM('b', 'a', 'aa')", "number": "BIGINT", "tolerance": "DOUBLE"}
ROWS = st.lists(
    st.tuples(
        st.text(alphabet="ab\u00e9\u4e2d\U0001f600 Z1", max_size=3),
        st.sampled_from(["b", "a", "aa"]),
        st.integers(-3, 12),
        st.sampled_from([0.05, 0.1, 0.25]),
    ),
    unique=True,
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@given(rows=ROWS, held_once=st.booleans(), most_keys=st.sampled_from([1, 40, 2**62]))
def test_order_agrees_with_duckdb(rows, held_once, most_keys):
    frame = pd.DataFrame(rows, columns=list(TYPES))
    if held_once:
        frame = frame.astype({"text": "category", "kind": pd.CategoricalDtype(["b", "a", "aa", "other"])})
    with connect() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_KEYS", most_keys)
        connection.execute(f"CREATE TABLE expected ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
        connection.executemany("INSERT INTO expected VALUES (?, ?, ?, ?)", rows)
        sorted_rows = frame.iloc[key_order(frame, "some", TYPES)]
        ordered = connection.execute("FROM expected ORDER BY text, kind::VARCHAR, number, tolerance").fetchall()
    assert list(sorted_rows.itertuples(index=False, name=None)) == ordered


def test_duplicate_key_is_reported():
    frame = pd.DataFrame({"text": ["z", "b", "a", "b"], "number": [1, 2, 3, 2]})
    with pytest.raises(duckdb.ConstraintException, match=r"table some: duplicate key \('b', 2\)"):
        key_order(frame, "some", {"text": "VARCHAR", "number": "BIGINT"})
    # Key columns of text compare numbers by their text.
    mixed = pd.DataFrame({"text": np.array([1, "1"], dtype=object)})
    with pytest.raises(duckdb.ConstraintException, match="duplicate key"):
        key_order(mixed, "some", {"text": "VARCHAR"})


@pytest.mark.parametrize("held_once", [False, True])
def test_missing_key_is_reported(held_once, tmp_path):
    frame = pd.DataFrame(
        {"graph": ["a", None], "communication": 0, "source": "0", "target": "1", "size_bytes": 1.0, "start_s": 0.0}
    ).astype({"graph": "category"} if held_once else {})
    with pytest.raises(duckdb.ConstraintException, match=r"NOT NULL constraint failed: communication\.graph"):
        write_table(frame, "communication", tmp_path / "rows.parquet")


@pytest.mark.parametrize("held_once", [False, True])
def test_large_and_small_tables_are_written_identically(held_once, tmp_path, monkeypatch):
    rows = 7000
    frame = pd.DataFrame(
        {
            "graph": [f"g{k % 50}" for k in range(rows)],
            "communication": np.arange(rows)[::-1],
            "source": "0",
            "target": "1",
            "size_bytes": 1.0,
            "start_s": 0.0,
        }
    ).astype({"graph": "category"} if held_once else {})
    write_table(frame, "communication", tmp_path / "few.parquet")
    monkeypatch.setattr(tables, "_LARGE_ROWS", 1000)
    monkeypatch.setattr(tables, "_BLOCK_ROWS", 999)
    write_table(frame, "communication", tmp_path / "many.parquet")
    assert (tmp_path / "few.parquet").read_bytes() == (tmp_path / "many.parquet").read_bytes()
    read = read_table(tmp_path / "many.parquet")
    assert len(read) == rows
    pd.testing.assert_frame_equal(read, read.sort_values(["graph", "communication"], ignore_index=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.parquet", "many.parquet"]
