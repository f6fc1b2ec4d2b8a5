"""Time and memory limits for endless, oversized and malformed input."""

import os
import resource
import subprocess
import sys
import threading

import pytest

from fabricast.pcie.models.evaluation import warm_up as predict_warm_up
from fabricast.pcie.packets.arbiter_phases import warm_up
from tests.fuzz.doors import GRAPHS, MATRIX, NETWORK, TREE

MOST_BYTES, MOST_SECONDS = 2 << 30, 60.0


def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


def processor_seconds():
    # Processor time, since other processes on a loaded machine lengthen the elapsed time.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def call(folder, *arguments, stdin=None):
    before = processor_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "fabricast.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        input=stdin,
        preexec_fn=limited,
        timeout=3600,
        env=os.environ | {"NUMBA_NUM_THREADS": "1"},
    )
    assert processor_seconds() - before < MOST_SECONDS
    return done


def refused(done, message):
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("fabricast: error:")]
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile the kernels before the tests, so that compilation is not timed."""
    warm_up()
    predict_warm_up()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "graphs.csv").write_text(GRAPHS)
    (tmp_path / "network.yaml").write_text(NETWORK)
    (tmp_path / "matrix.csv").write_text(MATRIX)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "storm8", "/dev/zero"],
        ["topology", "import", "zero.xml"],
        ["predict", "zero.yaml", "graphs.csv"],
        ["bandwidth", "/dev/zero"],
        ["fit", "/dev/zero"],
        ["fit", "zero.csv"],
        ["network", "loads", "zero.mtx", "--groups", "4"],
        ["map", "matrix.csv", "--network", "network.yaml", "--hosts", "/dev/zero"],
        ["calibrate", "storm8", "/dev/random"],
    ],
)
def test_devices_are_rejected(folder, arguments):
    for ending in ("xml", "yaml", "csv", "mtx"):
        (folder / f"zero.{ending}").symlink_to("/dev/zero")
    refused(call(folder, *arguments), "is a device, expected a file")


def test_standard_input_and_pipes_are_read_like_files(folder):
    assert call(folder, "predict", "storm8", "-", stdin=GRAPHS).stdout.count("\n") == 4
    os.mkfifo(folder / "pipe.csv")
    writer = threading.Thread(target=lambda: (folder / "pipe.csv").write_text(GRAPHS))
    writer.start()
    assert call(folder, "predict", "storm8", "pipe.csv").stdout.count("\n") == 4
    writer.join()


BOMBS = {
    "long.csv": (lambda: b"graph,source,target\n" + b"a" * 200_000_000, ["predict", "storm8"], "larger than 64 MB"),
    "empty.xml": (
        lambda: b"<topology>" + b"<a/>" * 5_000_000 + b"</topology>",
        ["topology", "import"],
        "300,000 elements",
    ),
    "deep.json": (lambda: b'{"a":' + b"[" * 4_000_000, ["bandwidth"], "the nesting is too deep"),
    "many.json": (
        lambda: b'{"testcases": [' + b"{}," * 5_000_000 + b"{}]}",
        ["bandwidth"],
        "contains no bandwidth matrix",
    ),
    "large.json": (lambda: b'{"testcases": [' + b"[]," * 15_000_000 + b"1]}", ["bandwidth"], "larger than 16 MB"),
    "large.yaml": (lambda: b"- 1\n" * 12_000_000, ["topology", "show"], "more than 5,000,000 lines"),
    "half.json": (
        lambda: b'{"testcases": [{"name": "a\\ud800", "bandwidth_matrix": [["1.0"]]}]}',
        ["bandwidth"],
        "surrogates not allowed",
    ),
    "half.yaml": (lambda: b'name: "a\\ud800"\nvertices: 1\n', ["topology", "show"], "found invalid Unicode character"),
    "digits.yaml": (lambda: b"name: " + b"9" * 5000 + b"\nvertices: 1\n", ["topology", "show"], "is not a valid int"),
    "rows.csv": (
        lambda: b"graph,source,target\n" + b"g,0,1\n" * 9_000_000,
        ["predict", "storm8"],
        "more than 3,000,000 rows",
    ),
    "dense.mtx": (
        lambda: b"%%MatrixMarket matrix array real general\n200000 200000\n1\n",
        ["network", "loads"],
        "declares 200,000 ranks",
    ),
    "endpoints.yaml": (
        lambda: (
            TREE.partition("vertices:")[0].partition("peer_links")[0]
            + "vertices:\n  - {name: RC, kind: root_complex}\n"
            + "".join(f"  - {{name: g{n}, kind: endpoint, parent: RC}}\n" for n in range(3000))
        ).encode(),
        ["topology", "show"],
        "3,000 endpoints, expected 1 to 256",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_large_files_are_rejected_with_the_limit(folder, name):
    content, arguments, message = BOMBS[name]
    (folder / name).write_bytes(content())
    more = ["--network", "network.yaml"] if name.endswith("mtx") else []
    refused(call(folder, *arguments, name, *more), message)


def test_many_rows_are_predicted_within_the_limits(folder):
    rows = "".join(f"g{n // 6},{n % 8},{(n + 1 + n % 7) % 8}\n" for n in range(700_000) if (1 + n % 7) % 8)
    (folder / "many.csv").write_text("graph,source,target\n" + rows)
    done = call(folder, "predict", "storm8", "many.csv", "-o", "out.parquet")
    assert done.returncode == 0, done.stderr
    assert (folder / "out.parquet").stat().st_size > 1_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["network", "loads", "matrix.csv", "--network", "network.yaml", "--seed", "-1"], "--seed is -1"),
        (["map", "matrix.csv", "--network", "network.yaml", "--seed", "-1"], "--seed is -1"),
        (["network", "simulate", "matrix.csv", "--network", "network.yaml", "--seed", "-1"], "--seed is -1"),
        (["calibrate", "storm8", "graphs.csv", "--seed", "-1"], "--seed is -1"),
        (["schedule", "storm8", "--halo", "4x2", "--top", "99999999"], "--top is 1e+08"),
        (
            ["predict", "storm8", "--all-to-all", "--size", "64MiB"],
            "--all-to-all is '--size', expected the size of each",
        ),
        (["schedule", "storm8", "--halo", "9" * 400 + "x2"], "--halo is '999"),
        (["simulate", "storm8", "graphs.csv", "--hop-latency-ns", "inf"], "hop_latency_ns is inf"),
        (["simulate", "storm8", "graphs.csv", "--data-credits", "9" * 15], "data_credits is"),
        (
            ["predict", "storm8", "--all-to-all", "1MiB", "--size", "2MiB"],
            "--size cannot be combined with --all-to-all",
        ),
        (["predict", "x" * 5000, "graphs.csv"], "xxx..."),
    ],
)
def test_out_of_range_options_are_rejected(folder, arguments, message):
    refused(call(folder, *arguments), message)


def test_full_device_is_reported(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fabricast.cli", "predict", "storm8", "graphs.csv"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "fabricast: error: cannot write: No space left on device\n"


def test_a_log_of_more_than_five_million_lines_is_refused(folder):
    (folder / "job.log").write_bytes(b"\n" * 5_000_001)
    refused(call(folder, "diagnose", "job.log"), "has more than 5,000,000 lines")
