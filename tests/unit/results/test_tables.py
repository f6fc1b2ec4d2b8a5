"""Tables, comparisons, claims, provenance."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import pytest

from fabricast.core.error_statistics import draw_cases, share_intervals
from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import atomic_write
from fabricast.inputs.parameters import TAGS, read_parameters
from fabricast.pcie.tables.probes import read_probes
from fabricast.results.comparisons import compare, error_bands
from fabricast.results.connections import connect
from fabricast.results.database import build_database, table_digests
from fabricast.results.tables import create_schema, key_columns, read_table, table_names, write_table
from tests.conftest import REPOSITORY

PUBLISHED = REPOSITORY / "config" / "published"
CONTRACT = [
    "study",
    "topology",
    "vertex",
    "link",
    "graph",
    "communication",
    "phase",
    "parameter",
    "prediction",
    "reference",
    "comparison",
    "error_band",
    "claim",
    "claim_reading",
    "claim_baseline",
    "schedule",
    "breakdown_component",
    "breakdown_share",
    "what_if",
    "maxrate_measurement",
    "maxrate_fit",
    "gpucentric_prediction",
    "gpucentric_choice",
    "network_case",
    "network_link_class",
    "network_link_histogram",
    "run",
    "table_digest",
]


def communications(count):
    return pd.DataFrame(
        {
            "graph": ["g"] * count,
            "communication": range(count),
            "source": "0",
            "target": "1",
            "size_bytes": 1.0,
            "start_s": 0.0,
        }
    )


def parameters(study):
    return pd.DataFrame(
        {"study": [study], "system": "a", "name": "b", "value": 1.0, "unit": "1", "tag": "assumed", "source": "c"}
    )


def test_comments_of_several_lines_are_whole():
    with duckdb.connect() as connection:
        create_schema(connection)
        (comment,) = connection.execute("SELECT comment FROM duckdb_views() WHERE view_name = 'worst_cases'").fetchone()
    assert comment.startswith("The 50 largest errors of each study") and comment.endswith("would fill the list.")


def test_all_tables_of_the_contract_exist_with_comments():
    assert set(table_names()) >= set(CONTRACT)
    with connect() as connection:
        create_schema(connection)
        tables = connection.execute("SELECT table_name FROM duckdb_tables() WHERE comment IS NULL").fetchall()
        columns = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND NOT internal "
            "AND table_name NOT IN (SELECT view_name FROM duckdb_views())"
        ).fetchall()
        views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        keys = connection.execute(
            "SELECT table_name, constraint_column_names FROM duckdb_constraints() JOIN duckdb_tables() "
            "USING (table_name) WHERE constraint_type = 'PRIMARY KEY' ORDER BY duckdb_tables.table_oid"
        ).fetchall()
    assert tables == []
    assert columns == []
    assert {name for (name,) in views} == {
        "error_by_model",
        "worst_cases",
        "claims_by_study",
        "claims_by_evidence",
        "best_schedules",
        "hot_links",
    }
    assert keys == [(name, list(key_columns(name))) for name in table_names()]


def test_parquet_is_ordered_and_equal_for_equal_rows(tmp_path):
    rows = communications(5000)
    write_table(rows, "communication", tmp_path / "a.parquet")
    write_table(rows.sample(frac=1, random_state=1), "communication", tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert read_table(tmp_path / "a.parquet")["communication"].is_monotonic_increasing


@pytest.mark.parametrize("change", [{"size_bytes": -1.0}, {"size_bytes": None}, {"communication": 0}])
def test_rows_that_violate_the_schema_are_rejected_and_not_written(tmp_path, change):
    rows = communications(3)
    rows[next(iter(change))] = next(iter(change.values()))
    with pytest.raises(duckdb.ConstraintException):
        write_table(rows, "communication", tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_partial_files_are_removed(tmp_path):
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "x.txt") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_unwritable_paths_are_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), atomic_write(tmp_path / "file" / "x.txt"):
        pass


def test_corrupt_parquet_is_named(tmp_path):
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(InputError, match="bad.parquet"):
        read_table(tmp_path / "bad.parquet")


def test_categories_are_shared_by_all_files(tmp_path):
    for name, graph in (("a", "first"), ("b", "second")):
        write_table(communications(3).assign(graph=graph), "communication", tmp_path / f"{name}.parquet")
    paths = [tmp_path / "b.parquet", tmp_path / "a.parquet"]
    plain, held_once = read_table(*paths), read_table(*paths, categories=True)
    assert held_once["graph"].cat.categories.tolist() == ["first", "second"]
    assert held_once["path_class"].isna().all()
    texts = held_once.select_dtypes("category").columns
    assert list(texts) == ["graph", "source", "target", "path_class"]
    pd.testing.assert_frame_equal(held_once.drop(columns=texts), plain.drop(columns=texts))
    assert all(held_once[name].astype(str).equals(plain[name].astype(str)) for name in texts)
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(InputError, match=r"a\.parquet"):
        read_table(*paths, categories=True)


@pytest.mark.slow
def test_database_has_digests_of_content(tmp_path):
    for name, count in (("a", 3), ("b", 3), ("c", 4)):
        write_table(communications(count), "communication", tmp_path / f"{name}.parquet")
        build_database({"communication": [tmp_path / f"{name}.parquet"]}, tmp_path / f"{name}.duckdb")
    digests = []
    for name in "abc":
        with duckdb.connect(str(tmp_path / f"{name}.duckdb"), read_only=True) as connection:
            query = "SELECT digest FROM table_digest WHERE table_name = 'communication'"
            digests.append(connection.execute(query).fetchall()[0][0])
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.slow
def test_digests_of_different_versions_of_duckdb_are_not_compared(tmp_path):
    write_table(communications(3), "communication", tmp_path / "rows.parquet")
    build_database({"communication": [tmp_path / "rows.parquet"]}, tmp_path / "run.duckdb")
    digests = pd.DataFrame({"table_name": ["communication", "graph"], "digest": ["v9.9:ab", "v9.9:cd"]})
    digests.to_csv(tmp_path / "other.csv", index=False)

    def compare_digests(first, second):
        command = [sys.executable, REPOSITORY / "scripts" / "compare_digests.py", tmp_path / first, tmp_path / second]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip()

    assert compare_digests("run.duckdb", "run.duckdb") == (0, f"{len(table_names()) - 2} tables, 0 differ")
    assert compare_digests("run.duckdb", "other.csv") == (
        2,
        f"digests of DuckDB v{duckdb.__version__} and DuckDB v9.9 cannot be compared: build both databases with the same version",
    )
    digests.assign(digest=["v9.9:ab", "v9.9:ef"]).to_csv(tmp_path / "third.csv", index=False)
    assert compare_digests("other.csv", "third.csv") == (1, "2 tables, 1 differ: graph")
    digests.assign(digest=["ab", "cd"]).to_csv(tmp_path / "older.csv", index=False)
    code, said = compare_digests("other.csv", "older.csv")
    assert code == 2 and "an older fabricast" in said
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    for absent in ("notes.csv", "rows.parquet", "nowhere.duckdb"):
        code, said = compare_digests("run.duckdb", absent)
        assert code == 2 and said.startswith(f"{tmp_path / absent}: contains no digests") and "\n" not in said


@pytest.mark.slow
def test_digests_of_some_studies_are_those_of_the_whole_run(tmp_path):
    """Tables of which only one study has shards need no other study; the others are left out."""
    results = tmp_path / "results"
    for study in ("pcie", "percs"):
        (results / study).mkdir(parents=True)
        write_table(parameters(study), "parameter", results / study / "published.parameter.parquet")
    write_table(communications(3), "communication", results / "pcie" / "set.communication.parquet")
    scripts = REPOSITORY / "scripts"

    def run(script, *arguments):
        command = [sys.executable, scripts / script, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run("table_digests.py", "results", "some.csv").returncode == 0
    assert pd.read_csv(tmp_path / "some.csv")["table_name"].tolist() == ["communication"]
    shards = {
        "parameter": sorted(results.glob("*/*.parameter.parquet")),
        "communication": [results / "pcie" / "set.communication.parquet"],
    }
    build_database(shards, results / "fabricast.duckdb")
    assert run("table_digests.py", "results", "all.csv").returncode == 0
    assert len(pd.read_csv(tmp_path / "all.csv")) == len(table_names()) - 2
    assert run("compare_digests.py", "all.csv", "some.csv").returncode == 1
    assert run("compare_digests.py", "--tables-of-second", "all.csv", "some.csv").stdout == "1 tables, 0 differ\n"
    write_table(communications(4), "communication", results / "pcie" / "set.communication.parquet")
    (results / "fabricast.duckdb").unlink()
    assert run("table_digests.py", "results", "other.csv").returncode == 0
    assert run("compare_digests.py", "--tables-of-second", "all.csv", "other.csv").returncode == 1


@pytest.mark.slow
def test_digest_depends_on_content_but_not_on_row_order():
    with connect() as connection:
        create_schema(connection)

        def digest(*rows):
            connection.execute("DELETE FROM parameter")
            for name, value, low, high in rows:
                connection.execute(
                    "INSERT INTO parameter BY NAME SELECT 'pcie' AS study, 'p' AS system, ? AS name, ? AS value, "
                    "'1' AS unit, 'assumed' AS tag, 'x' AS source, ? AS ci_low, ? AS ci_high",
                    [name, value, low, high],
                )
            return {name: text for name, _, text in table_digests(connection)}["parameter"]

        first = digest(("a", 1.0, 0.5, None), ("b", 2.0, None, None))
        assert digest(("b", 2.0, None, None), ("a", 1.0, 0.5, None)) == first
        others = {
            digest(("a", 2.0, 0.5, None), ("b", 1.0, None, None)),
            digest(("a", 1.0, None, 0.5), ("b", 2.0, None, None)),
            digest(("a", 1.0, 0.5, None)),
            first,
        }
    assert len(others) == 4


@pytest.mark.slow
def test_large_tables_are_compact_and_reject_duplicates(tmp_path):
    """Check content, row order that groups equal numbers, and duplicate keys without an index."""
    rows = 30_000
    case = {"study": "pcie", "case_id": [f"g{k:05}" for k in range(rows)], "item": "0", "quantity": "elapsed"}
    value = np.arange(rows) % 7 + 1.0
    frames = {
        "prediction": pd.DataFrame(case | {"model": "m", "unit": "s", "value": value}),
        "comparison": pd.DataFrame(
            case
            | {
                "model": "m",
                "kind": "simulated",
                "origin": "o",
                "predicted": value,
                "reference": value,
                "relative_error": 0.0,
                "tolerance": 0.15,
                "within": True,
            }
        ),
    }
    parts = {}
    for table, frame in frames.items():
        parts[table] = [tmp_path / f"{table}.{half}.parquet" for half in "ba"]
        for half, path in zip((frame[: rows // 2], frame[rows // 2 :]), parts[table], strict=True):
            write_table(half, table, path)
    build_database(parts, tmp_path / "all.duckdb")
    with duckdb.connect(str(tmp_path / "all.duckdb"), read_only=True) as connection:
        stored = {table: connection.table(table).df() for table in frames}
        digests = {name: text for name, _, text in table_digests(connection)}
        assert connection.execute("SELECT block_size FROM pragma_database_size()").fetchall() == [(65536,)]
        recorded = dict(connection.execute("SELECT table_name, digest FROM table_digest").fetchall())
    assert stored["comparison"]["reference"].is_monotonic_increasing
    assert stored["prediction"]["case_id"].is_monotonic_increasing
    for table, frame in frames.items():
        rows_by_case = stored[table].sort_values("case_id", ignore_index=True)
        pd.testing.assert_frame_equal(rows_by_case[list(frame)], frame, check_dtype=False, check_categorical=False)
    assert {name: digests[name] for name in frames} == {name: recorded[name] for name in frames}
    # A digest contains the DuckDB version of its hash function.
    assert {digest.split(":")[0] for digest in digests.values()} == {f"v{duckdb.__version__}"}
    with pytest.raises(InputError, match=r"b\.parquet: .* with its other shards: .*duplicate key .'pcie', 'g00000'"):
        build_database({"prediction": [*parts["prediction"], parts["prediction"][0]]}, tmp_path / "twice.duckdb")
    assert not (tmp_path / "twice.duckdb").exists()


@pytest.mark.slow
def test_connections_of_a_process_are_isolated(tmp_path):
    """Check isolation of connections to the shared instance, concurrently and after errors."""
    rows = communications(300)

    def write_and_read(number):
        path = tmp_path / f"{number}.parquet"
        with pytest.raises(duckdb.ConstraintException):
            write_table(rows.assign(size_bytes=-1.0), "communication", path)
        write_table(rows.assign(graph=f"g{number}"), "communication", path)
        return read_table(path, categories=True)["graph"].cat.categories.tolist()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(write_and_read, range(40))) == [[f"g{number}"] for number in range(40)]
    assert len(list(tmp_path.iterdir())) == 40


@pytest.mark.slow
def test_shards_of_a_table_are_merged_in_the_database(tmp_path):
    """Check key order for any file order, and errors that name the invalid file."""

    def topology(name, links=1):
        return pd.DataFrame(
            [
                {
                    "topology": name,
                    "study": "pcie",
                    "kind": "pcie_tree",
                    "source": "s",
                    "tag": "assumed",
                    "endpoints": 2,
                    "vertices": 3,
                    "links": links,
                }
            ]
        )

    for name in "bac":
        write_table(topology(name), "topology", tmp_path / f"{name}.parquet")
    parts = [tmp_path / f"{name}.parquet" for name in "bac"]
    build_database({"topology": parts}, tmp_path / "all.duckdb")
    with duckdb.connect(str(tmp_path / "all.duckdb"), read_only=True) as connection:
        assert connection.sql("SELECT topology FROM topology").fetchall() == [("a",), ("b",), ("c",)]
    with pytest.raises(InputError, match=r"b\.parquet: .* with its other shards: .*duplicate key \"b\""):
        build_database({"topology": [*parts, parts[0]]}, tmp_path / "twice.duckdb")
    with connect() as connection:
        connection.execute(f"COPY (SELECT * REPLACE (-1 AS links) FROM '{parts[0]}') TO '{tmp_path / 'd.parquet'}'")
    with pytest.raises(InputError, match=r"d\.parquet: holds other rows than were written"):
        build_database({"topology": [*parts[1:], tmp_path / "d.parquet"]}, tmp_path / "wrong.duckdb")
    (tmp_path / "c.parquet").write_text("no")
    with pytest.raises(InputError, match=r"c\.parquet: is not a readable Parquet table"):
        build_database({"topology": parts}, tmp_path / "damaged.duckdb")
    assert not list(tmp_path.glob("*ed.duckdb")) and not (tmp_path / "wrong.duckdb").exists()


def test_a_flipped_bit_of_a_result_is_noticed(tmp_path):
    """DuckDB writes no checksums of pages; the digest of the rows is in the metadata of the file."""
    rows = pd.DataFrame(
        {
            "study": "pcie",
            "case_id": [f"case{number}" for number in range(200)],
            "item": "",
            "model": "m",
            "quantity": "elapsed",
            "value": np.linspace(1, 2, 200),
            "unit": "s",
        }
    )
    whole, damaged = tmp_path / "whole.parquet", tmp_path / "damaged.parquet"
    write_table(rows, "prediction", whole)
    content, expected = whole.read_bytes(), read_table(whole)
    random, refused = np.random.default_rng(1), 0
    for _ in range(200):
        flipped = bytearray(content)
        flipped[random.integers(len(content))] ^= 1 << int(random.integers(8))
        damaged.write_bytes(bytes(flipped))
        try:
            found = read_table(damaged)
        except InputError:
            refused += 1
        else:
            # Unused parts of the file, such as statistics.
            pd.testing.assert_frame_equal(found, expected)
    assert refused > 100


def test_comparison_and_bands():
    case = {"study": "pcie", "case_id": [f"g{i}" for i in range(40)], "item": "", "quantity": "rate", "unit": "bytes/s"}
    predicted = pd.DataFrame(case | {"model": "m", "value": np.linspace(80, 120, 40)})
    reference = pd.DataFrame(case | {"kind": "measured", "origin": "o", "value": 100.0})
    rows = compare(predicted, reference, tolerance=0.15)
    assert rows["within"].sum() == (np.abs(np.linspace(80, 120, 40) / 100 - 1) <= 0.15).sum()
    bands = error_bands(rows, resamples=200, seed=1).set_index(["tolerance", "subset"])
    row = bands.loc[(0.15, "all")]
    assert row["share_within_low"] <= row["share_within"] <= row["share_within_high"]
    assert row["max_absolute"] == pytest.approx(0.2)
    again = error_bands(rows, resamples=200, seed=1)
    pd.testing.assert_frame_equal(again, error_bands(rows.copy(), resamples=200, seed=1))


def test_interval_resamples_whole_cases():
    within = np.array([True] * 50 + [False] * 50)
    for cases, bounds in ((np.repeat([0, 1], 50), (0, 0.001, 0.999, 1)), (np.arange(100), (0.38, 0.5, 0.5, 0.62))):
        hits, sizes = np.bincount(cases, weights=within)[:, None], np.bincount(cases)[:, None].astype(float)
        counts = draw_cases(len(sizes), 400, np.random.default_rng(0))
        assert (counts.sum(axis=1) == len(sizes)).all()
        (low,), (high,) = share_intervals(hits, sizes, counts)
        assert bounds[0] <= low <= bounds[1] <= bounds[2] <= high <= bounds[3]


def test_intervals_of_a_subset_of_cases_use_their_resamples():
    generator = np.random.default_rng(3)
    counts, some = draw_cases(600, 700, generator), np.flatnonzero(generator.random(600) < 0.3)
    sizes = generator.integers(1, 9, (some.size, 1)).astype(float)
    hits = generator.integers(0, sizes + 1, (some.size, 4)).astype(float)
    np.testing.assert_array_equal(
        share_intervals(hits, sizes, counts, some), share_intervals(hits, sizes, counts[:, some])
    )


def test_zero_references_and_mixed_units_are_rejected():
    case = {"study": ["pcie"], "case_id": ["g"], "item": [""], "quantity": ["rate"], "unit": ["s"]}
    predicted = pd.DataFrame(case | {"model": ["m"], "value": [1.0]})
    reference = pd.DataFrame(case | {"kind": ["measured"], "origin": ["o"], "value": [0.0]})
    with pytest.raises(ValueError, match="zero"):
        compare(predicted, reference, tolerance=0.1)
    with pytest.raises(ValueError, match="units"):
        compare(predicted, reference.assign(unit="ms", value=1.0), tolerance=0.1)


def test_published_files_are_well_formed():
    parameters = read_parameters(PUBLISHED / "parameters.csv")
    assert all(p.source and p.tag in TAGS for p in parameters)
    assert len(read_probes(PUBLISHED / "pcie_measured_probes.csv")) == 38


def test_probe_figures_equal_the_recorded_ones(shared_data):
    recorded = pd.read_csv(shared_data / "pcie" / "measured_rtx6kpro.csv")
    probes = read_probes(PUBLISHED / "pcie_measured_probes.csv")
    assert [probe.measured_bytes_per_s / 1e9 for probe in probes] == pytest.approx(recorded["measured_GBps"].tolist())
    assert [" ".join(f"{s}>{t}" for s, t in probe.pairs) for probe in probes] == recorded["comms"].tolist()


def test_csv_errors_contain_line_and_problem(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('# a comment\n\na,b\n# another\n"1\n1",x\n\n2_0,\n', encoding="utf-8-sig")
    first, second = read_csv(path, ["b", "a"], ["c"])
    assert (first.line, first["a"], first["b"]) == (6, "1\n1", "x")
    with pytest.raises(InputError, match=r"mine.csv:8: a is '2_0'"):
        second.number("a")
    assert second.number("b", default=3.0) == second.number("c", default=3.0) == 3.0
    for text, message in (
        (b"a,b\n1,\xff\n", "not UTF-8"),
        (b"a,b\n1,\0\n", r":2: contains a NUL"),
        (b"a\n1\n", "'b' is"),
    ):
        path.write_bytes(text)
        with pytest.raises(InputError, match=message):
            read_csv(path, ["a", "b"])
    with pytest.raises(InputError, match="cannot be read"):
        read_csv(tmp_path, ["a"])


def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    target = tmp_path / "a[1].csv"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [tmp_path / f".a[1].{dead.pid}.part.csv", tmp_path / f".a[1].{dead.pid}.part.csv.wal"]
    alive = tmp_path / f".a[1].{os.getppid()}.part.csv"
    other = tmp_path / f".a1.{dead.pid}.part.csv"
    for path in (*left, alive, other):
        path.write_text("half")
    with atomic_write(target) as temporary:
        temporary.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([target.name, alive.name, other.name])
