"""Command line, called as a subprocess."""

import io
import subprocess
import sys

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app

GRAPHS = "graph,source,target\nworked,0,2\nworked,1,4\nworked,3,2\nworked,6,4\n"


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "fabricast.cli", *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )


@pytest.fixture
def graphs(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text(GRAPHS)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_closed_stream_discards_what_would_be_printed(graphs, tmp_path, stream):
    command = f"{sys.executable} -m fabricast.cli predict storm8 {graphs} -o times.csv {stream}>&-"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    assert (tmp_path / "times.csv").is_file()


@pytest.mark.slow
def test_predict_prints_csv(graphs, tmp_path):
    result = run("predict", "storm8", graphs, "--tau", 0.2, "--model", "congestion_factor", cwd=tmp_path)
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stderr
    assert lines[0] == (
        "graph,communication,source,target,size_bytes,start_s,elapsed_s,slowdown,bottleneck,caused_by,limited_by,"
        "elapsed_without_s"
    )
    assert [round(float(line.split(",")[6]) * 1e3, 3) for line in lines[1:]] == [64.944, 64.944, 36.08, 36.08]
    assert [line.split(",")[1] for line in lines[1:]] == ["0", "1", "2", "3"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_writes_files(graphs, tmp_path, ending):
    output = tmp_path / f"out.{ending}"
    result = run(
        "predict",
        "storm8",
        graphs,
        "-o",
        output,
        "--size",
        "1MiB",
        "--bandwidth",
        "1GiB/s",
        "--model",
        "max_min",
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    rows = duckdb.sql(f"SELECT * FROM '{output}' ORDER BY communication").fetchall()
    assert [row[4] for row in rows] == [2.0**20] * 4
    assert [row[6] * 1024 for row in rows] == pytest.approx([2.0] * 4)


@pytest.mark.slow
def test_predict_output_is_independent_of_formats_and_threads(graphs, tmp_path):
    """Input format, destination and number of threads do not change the output."""
    duckdb.read_csv(str(graphs), all_varchar=True).write_parquet(str(tmp_path / "graphs.parquet"))
    printed = run("predict", "storm8", graphs, "--threads", 1, cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    for source in (graphs, tmp_path / "graphs.parquet"):
        result = run("predict", "storm8", source, "-o", tmp_path / "out.csv", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "out.csv").read_text() == printed.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("copies", "message"),
    [
        ("0>0", "--copies contains 0>0, expected two different endpoints"),
        ("", "--copies is empty, expected one or more pairs of endpoints"),
        ("0-1", "--copies contains '0-1', expected copies such as '0>3 1>3'"),
        ("0>99", "endpoint '99' is unknown, expected one of 0, 1, 2, 3, 4, 5, 6, 7, H@RC"),
    ],
)
def test_invalid_copies_name_their_option(tmp_path, copies, message):
    result = run("predict", "storm8", "--copies", copies, "-o", tmp_path / "out.csv", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == f"fabricast: error: {message}\n"
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 'g' AS graph, '0' AS source, '9' AS target", "row 1: target is '9', expected an endpoint of storm8"),
        ("SELECT 'g' AS graph, '0' AS source, NULL AS target", "row 1: target is '', expected an endpoint"),
        ("SELECT 'g' AS graph, 0 AS source, 1 AS target, -1.0 AS size_bytes", "row 1: size_bytes is -1, expected"),
        (
            "SELECT 'g' AS graph, 0 AS source, 1 AS target, 'x' AS size_bytes",
            "'size_bytes' is of type string, expected numbers",
        ),
        ("SELECT 'g' AS graph, 0 AS source", "lacks the column 'target', expected graph, source, target, [size_bytes]"),
        ("SELECT 'g' AS graph, 0 AS source, 1 AS target, 2 AS what", "has the unknown column 'what'"),
        ("SELECT 'g' AS graph, 0 AS source, 1 AS target WHERE false", "contains no rows"),
    ],
)
def test_invalid_parquet_graphs_are_rejected(tmp_path, query, message):
    path = tmp_path / "bad.parquet"
    duckdb.sql(query).write_parquet(str(path))
    result = run("predict", "storm8", path, "-o", tmp_path / "out.csv", cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
def test_predict_warns_about_copies_between_sockets(graphs, tmp_path):
    result = run("predict", "dgx1", graphs, "--bandwidth", "12GiB/s", "--model", "back_pressure", "-v", cwd=tmp_path)
    assert result.returncode == 0
    assert "1 copies are between root complexes; the study validates only copies below one" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "storm9", "graphs.csv"], "topology 'storm9'"),
        (["predict", "storm8", "missing.csv"], "missing.csv: cannot be read"),
        (["predict", "storm8", "graphs.csv", "--model", "magic"], "model 'magic'"),
        (["predict", "storm8", "graphs.csv", "--tau", "1.5"], "--tau is 1.5"),
        (["predict", "storm8", "graphs.csv", "--tau", "nan"], "--tau is nan"),
        (["predict", "storm8", "graphs.csv", "--bandwidth", "0GB/s"], "--bandwidth is '0GB/s'"),
        (["predict", "storm8", "graphs.csv", "--size", "nan"], "--size is 'nan'"),
        (["predict", "storm8", "graphs.csv", "-o", "out.txt"], "--output is 'out.txt'"),
        (["predict", "storm8", "bad.csv", "-o", "out.csv"], "bad.csv:2: target is '9'"),
        (
            ["topology", "import", "graphs.csv"],
            "has congestion graphs (table of congestion graphs): 'fabricast predict' reads it",
        ),
        (["topology", "show", "missing.xml"], "missing.xml: cannot be read"),
        (["claims"], "does not exist"),
    ],
)
def test_invalid_input_exits_with_code_2_and_a_one_line_message(graphs, tmp_path, arguments, message):
    (tmp_path / "bad.csv").write_text("graph,source,target\na,0,9\n")
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"graphs.csv", "bad.csv"}


@pytest.mark.slow
def test_topologies_are_shown_listed_and_imported(tmp_path):
    shown = run("topology", "show", "storm8", cwd=tmp_path)
    assert shown.returncode == 0
    assert "S4 switch" in shown.stdout
    assert "PXB" in shown.stdout
    assert "storm16" in run("topology", "list", cwd=tmp_path).stdout
    xml = tmp_path / "m.xml"
    xml.write_text(
        '<system><cpu><pci busid="a" class="0x060400" link_speed="8 GT/s" link_width="16">'
        '<pci busid="b" class="0x0302"/><pci busid="c" class="0x0302"/></pci></cpu></system>'
    )
    imported = run("topology", "import", xml, "-o", tmp_path / "m.yaml", cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    assert "links have no recorded speed" in imported.stderr
    assert run("topology", "show", tmp_path / "m.yaml", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("command", [[], ["predict"], ["models"], ["claims"], ["topology"], ["topology", "import"]])
def test_help_has_an_example(tmp_path, command):
    result = run(*command, "--help", cwd=tmp_path)
    assert result.returncode == 0
    if command and command != ["topology"]:
        assert "Example: " in result.stdout


def test_version_is_printed(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith("fabricast 0.")


def test_simulate_has_the_patterns_of_predict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["simulate", "pcie5_four_switches", "--copies", "0>3 1>3", "--limited-by"])
    table = pd.read_csv(io.StringIO(result.stdout))
    assert table["limited_by"].tolist() == ["1>3", "0>3"]
    assert (table["elapsed_without_s"] < 0.6 * table["elapsed_s"]).all()
    for arguments, copies in ((["--all-to-all", "1MiB"], 56), (["--halo", "4x2"], 20), (["--ring"], 8)):
        result = CliRunner().invoke(app, ["simulate", "pcie5_four_switches", *arguments])
        assert len(pd.read_csv(io.StringIO(result.stdout))) == copies
    result = CliRunner().invoke(app, ["simulate", "storm8", "--ring", "--trace", "ring"])
    assert "--trace draws one graph of a file" in str(result.exception)
    assert not (tmp_path / "trace.parquet").exists()


@pytest.mark.slow
def test_limiting_copies_without_explanation_are_refused(tmp_path):
    for machine in (["storm8"], ["flat4x2", "--bandwidth", "10 GB/s"], ["storm8", "--transport", "staged"]):
        result = run("predict", *machine, "--ring", "--no-explain", "--limited-by", cwd=tmp_path)
        assert result.returncode == 2 and "--limited-by is requested without explain" in result.stderr
    result = run("predict", "storm8", "--ring", "--no-explain", cwd=tmp_path)
    assert result.returncode == 0 and "limited_by" not in result.stdout.splitlines()[0]


@pytest.mark.slow
def test_outputs_of_a_command_are_different_files(tmp_path):
    result = run("collective", "storm8", "-o", "a.csv", "--write-tuner", "./a.csv", cwd=tmp_path)
    assert "--write-tuner is 'a.csv', which another option writes, expected another name" in result.stderr
    assert not list(tmp_path.iterdir())
    # A file that cannot be written leaves no other one.
    (tmp_path / "file").write_text("")
    result = run("collective", "storm8", "-o", "file/a.csv", "--write-tuner", "t.csv", cwd=tmp_path)
    assert result.returncode == 2 and [path.name for path in tmp_path.iterdir()] == ["file"]
    assert run("collective", "storm8", "-o", "a.csv", "--write-tuner", "t.csv", cwd=tmp_path).stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "file", "t.csv"]


@pytest.mark.slow
def test_a_system_without_measurements_is_refused(tmp_path):
    for command in (["collective", "storm8"], ["predict", "storm8", "--ring"]):
        assert "--system is specified without measurements" in run(*command, "--system", "a", cwd=tmp_path).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "remedies"),
    [
        (["predict", "flat4x2", "--ring"], "specify --bandwidth, --measurements, --parameters or --gpu, or import"),
        (["collective", "flat4x2"], "specify --measurements or --gpu, or import"),
        (["simulate", "flat4x2", "--ring"], "specify --parameters, --generation and --width or --gpu, or import"),
    ],
)
def test_remedies_are_options_of_the_command(tmp_path, command, remedies):
    assert remedies in run(*command, cwd=tmp_path).stderr


@pytest.mark.slow
def test_patterns_between_gpus_of_a_machine_with_one_gpu_name_the_machine(tmp_path):
    (tmp_path / "one.yaml").write_text(
        "name: one\nlink_bytes_per_s: 15.75e9\nvertices:\n"
        '  - {name: "RC", kind: root_complex}\n  - {name: "0", kind: endpoint, parent: "RC"}\n'
    )
    for options in (["--ring"], ["--all-to-all", "1MiB"], ["--halo", "1x1"]):
        stderr = run("predict", "one.yaml", *options, cwd=tmp_path).stderr
        assert "topology 'one' has 1 accelerator, expected 2 or more for this pattern" in stderr
    assert "the topology has 1 GPU" in run("schedule", "one.yaml", "--halo", "1", cwd=tmp_path).stderr
    assert "topology 'one' has 1 GPU, expected 2 to 16" in run("collective", "one.yaml", cwd=tmp_path).stderr
    assert run("predict", "one.yaml", "--host-to-all", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_search_for_limiting_copies_with_a_random_order_shows_its_progress(tmp_path):
    command = ["predict", "crossed_virtual_switches", "--program", "unordered_writes", "--copies"]
    copies = " ".join(f"{s}>{t}" for s in range(5) for t in range(8) if s != t)
    assert "evaluating without each copy: 35 of 35" in run(*command, copies, cwd=tmp_path).stderr
    assert "evaluating" not in run(*command, copies[:20].rsplit(" ", 1)[0], cwd=tmp_path).stderr
    assert "evaluating" not in run(*command, copies, "--no-limited-by", cwd=tmp_path).stderr


@pytest.mark.slow
def test_options_that_exclude_each_other_or_have_no_effect_are_refused(tmp_path):
    stderr = run("predict", "storm8", "--ring", "--no-explain", "--draw", "d.svg", cwd=tmp_path).stderr
    assert stderr.count("\n") == 1 and "--draw and --no-explain exclude each other" in stderr
    schedule = ["schedule", "storm8", "--halo", "4x2", "--top", "1", "--model", "max_min"]
    assert "--tau is not a parameter of 'max_min'" in run(*schedule, "--tau", "0.2", cwd=tmp_path).stderr
