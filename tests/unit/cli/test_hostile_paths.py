"""Tests of file names, encodings and sizes that ordinary users do not have."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fabricast as fc
from fabricast.pcie.measurements.files import read_measured_copies
from fabricast.pcie.tables.measured_copies import MeasuredMachine, measured_copy_tables
from fabricast.pcie.topology.builtin import load_tree
from fabricast.runtime.caches import cache_folder

GRAPHS = "graph,source,target\na,0,1\n"


def run(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fabricast.cli", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        env={**os.environ, **environment},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "storm8", "loop.csv", "-o", "out.csv"],
        ["predict", "storm8", "graphs.csv", "--parameters", "loop.csv", "-o", "out.csv"],
        ["simulate", "storm8", "loop.parquet"],
    ],
)
def test_symbolic_links_that_form_a_loop_get_one_line(tmp_path, arguments):
    (tmp_path / "graphs.csv").write_text(GRAPHS)
    for name in ("loop.csv", "loop.parquet"):
        (tmp_path / name).symlink_to(name)
    result = run(*arguments, cwd=tmp_path)
    error = result.stderr.decode()
    assert result.returncode == 2 and "Traceback" not in error, error
    assert error.startswith("fabricast: error: ") and error.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_in_other_encodings_is_complete(tmp_path, encoding):
    (tmp_path / "graphs.csv").write_text("graph,source,target\nGrün 显卡,0,1\nb,0,1\n", encoding="utf-8")
    result = run("predict", "storm8", "graphs.csv", cwd=tmp_path, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3


@pytest.mark.slow
def test_one_graph_has_a_limit_in_one_line(tmp_path):
    (tmp_path / "graphs.csv").write_text("graph,source,target\n" + "a,0,1\n" * 20_000)
    for command in ("predict", "simulate"):
        result = run(command, "storm8", "graphs.csv", cwd=tmp_path)
        assert result.returncode == 2
        assert b"graph 'a' has 20,000 copies, expected at most 4,096" in result.stderr
    with pytest.raises(fc.InputError, match="has 5,000 copies, expected at most 4,096"):
        fc.graph([(0, 1)] * 5000)


def test_measured_graphs_whose_names_differ_in_case_are_separate(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text(
        "graph,communications,total_gb_per_s,role\nalone,0>1,50,\nRing A,0>4 1>5,50,test\nring a,2>6 3>7,50,test\n"
        "显卡,0>5 1>4,50,test\n网卡,0>6 1>7,50,test\n",
        encoding="utf-8",
    )
    tables = measured_copy_tables(
        [MeasuredMachine("mine", load_tree("flat4x2"), read_measured_copies(path), user_supplied=True)], seed=1
    )
    for rows in (tables.prediction, tables.reference):
        keys = ["case_id", "model"] if "model" in rows else ["case_id"]
        assert not rows.duplicated([*keys, "quantity"]).any()
    assert len(tables.reference) == 4


@pytest.mark.parametrize("pairs", [[(0.5, 1)], [(True, 1)], [(0,)], [], [("gpu9", 0)], [(1, 1)], [("x", 1)]])
def test_graphs_of_impossible_endpoints_are_rejected(pairs):
    tree = fc.load_topology("storm8")
    with pytest.raises(fc.InputError):
        fc.predict(tree, pairs)


def test_sizes_and_start_times_of_each_copy_are_used():
    times = fc.predict("storm8", fc.graph([("gpu0", "gpu1"), ("gpu2", "gpu1")], size=["1 GB", "2 GB"], start_s=[0, 9]))
    assert times["size_bytes"].tolist() == [1e9, 2e9] and times["start_s"].tolist() == [0, 9]
    for options in ({"size": [1, 2, 3]}, {"size": 1e300}, {"start_s": [-1]}, {"start_s": [0, float("nan")]}):
        with pytest.raises(fc.InputError):
            fc.graph([(0, 1), (2, 1)], **options)
    with pytest.raises(TypeError, match="no argument 'bandwith' .did you mean 'bandwidth'"):
        fc.predict("storm8", [(0, 1)], bandwith=1e9)
    assert isinstance(fc.predict("storm8", [("0", "1")]), pd.DataFrame)


def test_file_names_in_another_encoding_get_one_line(tmp_path):
    for name in (b"o\xff.csv", b"o\xff.parquet"):
        command = [sys.executable, "-m", "fabricast.cli", "predict", "storm8", "--ring", "-o", name]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert result.returncode == 2
        assert b"is not UTF-8 text, expected another name" in result.stderr
        assert result.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_full_disk_has_no_cache(tmp_path, monkeypatch):
    """The cache goes to the next folder, and at last to a temporary one."""
    monkeypatch.setenv("FABRICAST_CACHE_DIR", str(tmp_path / "crowded"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "free"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: usage._replace(free=0 if "crowded" in str(folder) else 1_000_000_000)
    )
    assert cache_folder("kernels") == tmp_path / "free" / "fabricast" / "kernels"
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=0))
    assert cache_folder("kernels") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: fc.graph([(0, 2**63)]),
        lambda: fc.graph([("9" * 30, "1")]),
        lambda: fc.graph([(0, 1)], start_s=["a"]),
        lambda: fc.predict("storm8", replace(fc.graph([(0, 1)]), programs=("x",))),
        lambda: fc.predict("storm8", replace(fc.graph([(0, 1)]), source=np.array([0.0]))),
        lambda: fc.link_loads("4D-64", mapping="DEF", tiles="a"),
        lambda: fc.link_loads("4D-64", mapping="DEF", multiplicity=1.5),
        lambda: fc.link_loads("4D-64", mapping="DEF", seed=-1),
        lambda: fc.fit_max_rate(None),
        lambda: fc.calibrate("storm8", []),
        lambda: fc.graph(None),
        lambda: fc.graph(b"0>1"),
        lambda: fc.fit_max_rate(TIMES, processes=1.5),
        lambda: fc.fit_max_rate(TIMES, node_pairs=2),
        lambda: fc.fit_max_rate(TIMES, seed=-1),
        lambda: fc.fit_max_rate(TIMES.assign(processes=TIMES["processes"] + 0.5)),
        lambda: fc.fit_max_rate(TIMES.assign(processes=True)),
    ],
)
def test_impossible_arguments_of_python_are_input_errors(call):
    with pytest.raises(fc.InputError):
        call()


TIMES = pd.DataFrame(
    [(k, n, 1e-6 * k + n * k / 5e9) for k in (1, 2, 4) for n in (8, 64, 1024, 65536)],
    columns=["processes", "size_bytes", "time_s"],
)


def test_probes_of_python_may_number_endpoints():
    rows = [("a", 1, 0, 1, 1e9, 0.1), ("b", 1, 0, 4, 1e9, 0.12), ("c", 1, 2, 1, 1e9, 0.1)]
    probes = pd.DataFrame(rows, columns=["graph", "repetition", "source", "target", "size_bytes", "elapsed_s"])
    table = fc.calibrate(fc.load_topology("flat4x2"), probes)
    assert table.set_index("name")["value"]["bandwidth"] == pytest.approx(1e10)


@pytest.mark.slow
def test_all_missing_keys_are_named_at_once(tmp_path):
    (tmp_path / "network.yaml").write_text("groups: 2\n")
    (tmp_path / "matrix.csv").write_text("source,target,size_bytes\n0,1,8\n")
    result = run("map", "matrix.csv", "--network", "network.yaml", cwd=tmp_path)
    assert result.returncode == 2
    assert b"keys 'routers_per_drawer', 'cores_per_router', 'll_bytes_per_s'" in result.stderr
    assert b"are missing" in result.stderr
