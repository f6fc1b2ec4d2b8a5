"""Tests of workflow faults: killed jobs, full disk, damaged files, concurrent runs."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from fabricast.inputs.pair_rates import pcie_share
from tests.conftest import REPOSITORY, require_tool
from tests.running import SMOKE, copy_project, snakemake, start
from tests.workflow.test_workflow import contents

if not Path("/proc/self/task").exists():
    pytest.skip("these tests look at processes through /proc", allow_module_level=True)

#: Targets that are built quickly and need every kind of rule except figures and report.
PART = ("results/breakdown/all.error_band.parquet", *SMOKE)

#: Targets with sharded simulations, comparisons and figures that interrupted runs build in acceptable time.
KILLED = (
    "results/pcie/storm8.error_band.parquet",
    "results/pcie/halos.schedule.parquet",
    "results/percs/all.error_band.parquet",
    "results/gpucentric/all.error_band.parquet",
    "reports/figures/breakdown.totals.svg",
    *SMOKE,
)


def leaves(pid):
    """Return the leaf processes below a process, which are the jobs."""
    children = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, path.read_text().split())
    return [leaf for child in children for leaf in (leaves(child) or [child])]


def kill_after(folder, jobs, pause_s, *, victim):
    """Start the study and kill Snakemake or a job after some jobs; return code and output."""
    # Snakemake notices a killed job; with this profile it does not start further jobs.
    process = start(folder, *KILLED, "--workflow-profile", "profiles/ci", start_new_session=True)
    lines, finished = [], 0
    watchdog = threading.Timer(300, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    for line in process.stdout:
        lines.append(line)
        finished += line.startswith("Finished jobid")
        # Repeated for every further job, because a job may end just before it is killed.
        if finished >= jobs and line.startswith("Finished jobid"):
            time.sleep(pause_s)
            if victim == "snakemake":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                while not (jobs_running := leaves(process.pid)) and process.poll() is None:
                    time.sleep(0.01)
                for pid in jobs_running[:1]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    watchdog.cancel()
    process.wait()
    return process.returncode, "".join(lines)


def test_results_after_four_kills_are_bitwise_identical(finished, tmp_path):
    folder = copy_project(tmp_path)
    generator = random.Random(20161113)
    killed = 0
    for _ in range(30):
        victim = "snakemake" if killed % 2 == 0 else "job"
        code, output = kill_after(folder, generator.randint(1, 2), generator.uniform(0, 1.5), victim=victim)
        if code == 0:
            # The run finished before the kill, as on a fast machine: start again from scratch.
            for made in ("results", "reports"):
                shutil.rmtree(folder / made)
            continue
        if killed == 0:
            # Unlock as documented in README; later locks are removed directly, which is faster.
            assert snakemake(folder, "--unlock", *SMOKE)[0] == 0
        elif victim == "snakemake":
            # The locks are already removed if the run was ending when it was killed.
            shutil.rmtree(folder / ".snakemake" / "locks", ignore_errors=True)
        killed += 1
        if killed == 4:
            break
    assert killed == 4
    code, output = snakemake(folder, *KILLED)
    assert code == 0, output
    assert not list(folder.rglob("*.part*"))
    expected, actual = contents(finished), contents(folder)
    assert {name for name in KILLED if name.startswith("re")} <= actual.keys() <= expected.keys()
    assert [name for name in actual if expected[name] != actual[name]] == []
    assert "Nothing to be done" in snakemake(folder, *KILLED)[1]


def test_second_concurrent_run_is_rejected(tmp_path):
    folder = copy_project(tmp_path)
    process = start(folder, *PART, "--cores", "1", start_new_session=True)
    try:
        # Outputs are locked last; an empty lock file has no effect.
        def locked():
            locks = (folder / ".snakemake" / "locks").glob("*.output.lock")
            return any(lock.stat().st_size for lock in locks)

        while not locked() and process.poll() is None:
            time.sleep(0.02)
        # The first run is stopped until the second one has been rejected.
        os.killpg(process.pid, signal.SIGSTOP)
        assert locked()
        code, output = snakemake(folder, *PART, "--cores", "1")
        assert code != 0
        assert "Directory cannot be locked" in output
        os.killpg(process.pid, signal.SIGCONT)
        process.communicate(timeout=3600)
        assert process.returncode == 0, "the first run is not disturbed"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def own_mounts():
    """Skip the test unless a user can mount file systems in a private namespace."""
    require_tool("unshare")
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this system does not allow users to mount private file systems")


def in_mounted(folder, mount, *arguments):
    """Run the workflow with a private file system at results/."""
    script = f'set -e; {mount}; set +e; "$@"; code=$?; find results | sort > found.txt; exit $code'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    result = subprocess.run(
        [*command, sys.executable, "-m", "snakemake", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    return result.returncode, result.stdout + result.stderr, (folder / "found.txt").read_text().split()


def test_full_disk_is_one_error_line_without_partial_files(own_mounts, tmp_path):
    folder = copy_project(tmp_path)
    target = "results/pcie/storm8.prediction.parquet"
    code, output, files = in_mounted(folder, "mount -t tmpfs -o size=48k tmpfs results", target, *SMOKE, "--cores", "1")
    assert code != 0
    shown = [line.strip().removeprefix("| ") for line in output.splitlines()]
    errors = [line for line in shown if line.startswith("error:")]
    assert errors, output
    assert all(
        re.fullmatch(r"error: results/\S+: cannot be written: .*[Nn]o space left on device.*", e) for e in errors
    )
    assert "Traceback" not in output
    assert target not in files
    assert not [name for name in files if ".part" in name]


def test_read_only_results_are_one_error_line(own_mounts, tmp_path):
    folder = copy_project(tmp_path)
    code, output, _ = in_mounted(
        folder, "mount -t tmpfs -o ro tmpfs results", "results/pcie/kernels.txt", *SMOKE, "--cores", "1"
    )
    assert code != 0
    assert re.search(r"^.*Read-only file system: .*results", output, re.MULTILINE), output
    assert "Traceback" not in output


def test_damaged_table_is_reported_and_rebuilt_after_deletion(finished, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(finished, folder, symlinks=True)
    damaged = folder / "results" / "breakdown" / "systems.what_if.parquet"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    # Targets that read the damaged table; all other files are unchanged.
    read_by = ("reports/figures/breakdown.what_if.svg", "results/breakdown/systems.what_if.parquet", *SMOKE)
    code, output = snakemake(folder, *read_by, "--cores", "1")
    assert code != 0
    assert "error: results/breakdown/systems.what_if.parquet: is not a readable Parquet table" in output
    assert "delete it and run snakemake to recreate it" in output
    assert "Traceback" not in output
    damaged.unlink()
    code, output = snakemake(folder, *read_by, "--cores", "1")
    assert code == 0, output
    expected, actual = contents(finished), contents(folder)
    assert [name for name in expected if expected[name] != actual[name]] == []


def test_database_of_another_version_is_recognised(finished, tmp_path):
    import duckdb

    older = tmp_path / "older.duckdb"
    shutil.copy(finished / "results" / "fabricast.duckdb", older)
    command = [sys.executable, "-m", "fabricast.cli", "claims", "--database", str(older)]
    for change, digest in (
        ("UPDATE run SET schema_digest = '0123abcd'", "0123abcd"),
        ("ALTER TABLE run DROP COLUMN schema_digest", "an older one"),
    ):
        with duckdb.connect(str(older)) as connection:
            connection.execute(change)
        result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
        assert result.returncode == 2
        assert f"has the tables of another version (schema {digest}, this version's is" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_workflow_is_usable_as_a_module(finished, tmp_path):
    repository = copy_project(tmp_path / "fabricast")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "Snakefile").write_text(
        "module fabricast:\n"
        '    snakefile: "../fabricast/Snakefile"\n'
        "    config: {'breakdown': {'samples': 2000}, 'bootstrap_resamples': 200}\n"
        '    pathvars: results="network/results", reports="network/reports", logs="network/logs",\n'
        "use rule * from fabricast as fabricast_*\n"
        "rule mine:\n"
        "    default_target: True\n"
        '    input: "network/results/breakdown/all.error_band.parquet"\n'
        '    output: "mine.txt"\n'
        '    shell: "ls {input} > {output}"\n'
    )
    code, output = snakemake(folder, "--cores", "2")
    assert code == 0, output
    assert (folder / "mine.txt").read_text() == "network/results/breakdown/all.error_band.parquet\n"
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {
        "Snakefile",
        "mine.txt",
        "network",
    }
    code, output = snakemake(folder, "--dry-run", "fabricast_all")
    assert code == 0, output
    assert "fabricast_write_report" in output
    assert not (repository / "results" / "breakdown").exists()


def test_run_prints_a_summary_at_its_end(finished, tmp_path):
    folder = copy_project(tmp_path)
    code, output = snakemake(folder, *PART, "--cores", "2")
    assert code == 0, output
    # The summary omits claims and report, because this run wrote neither.
    assert re.search(r"fabricast: done in \d+ s$", output, re.MULTILINE)
    os.remove(finished / "reports" / "report.html")
    code, output = snakemake(finished, *SMOKE, "--cores", "2")
    assert code == 0, output
    assert re.search(r"fabricast: done in \d+ s; report: reports/report.html$", output, re.MULTILINE)


@pytest.mark.parametrize("size", ["100k", "400k", "1500k"])
def test_full_disk_during_database_build_is_one_error_line(own_mounts, finished, tmp_path, size):
    program = (
        "import sys; from pathlib import Path; from fabricast.results.database import build_database\n"
        "from fabricast.core.errors import InputError\n"
        "tables = {}\n"
        "for path in Path(sys.argv[1]).glob('*/*.parquet'):\n"
        "    tables.setdefault(path.stem.split('.')[-1], []).append(path)\n"
        "try:\n    build_database(tables, Path('full/fabricast.duckdb'))\n"
        "except InputError as error:\n    print(error, sorted(path.name for path in Path('full').iterdir()))"
    )
    (tmp_path / "full").mkdir()
    script = f'mount -t tmpfs -o size={size} tmpfs full && exec "$@"'
    result = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            sys.executable,
            "-c",
            program,
            str(finished / "results"),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(finished / "src")},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"full/fabricast.duckdb: cannot be written: No space left on device \[\]\n", result.stdout)


def test_studies_with_separate_folders_run_concurrently(tmp_path):
    folder = copy_project(tmp_path)
    other = folder / "other.yaml"
    other.write_text("pathvars: {results: results/other, reports: reports/other, logs: logs/other}\n")
    smoke = ("--configfile", "config/studies/smoke.yaml")
    first = start(folder, "results/smoke/breakdown/all.error_band.parquet", "--cores", "1", *smoke)
    second = start(folder, "results/other/breakdown/all.error_band.parquet", "--cores", "1", *smoke, str(other))
    for process in (first, second):
        output, _ = process.communicate(timeout=3600)
        assert process.returncode == 0, output
    for name in ("smoke", "other"):
        assert (folder / "results" / name / "breakdown" / "all.error_band.parquet").exists()
        assert (folder / "logs" / name).is_dir()
    assert not (folder / "results" / "breakdown").exists()


def test_duplicate_topology_names_are_rejected(tmp_path):
    folder = copy_project(tmp_path)
    xml = (
        '<system><cpu><pci busid="a" class="0x060400" link_speed="8 GT/s" link_width="16">'
        '<pci busid="b" class="0x0302"/><pci busid="c" class="0x0302"/></pci></cpu></system>'
    )
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "machine.xml").write_text(xml)
    (folder / "graphs.csv").write_text("graph,source,target\ng,0,1\n")
    (folder / "own.yaml").write_text(
        "pcie:\n  graph_sets:\n"
        "    one: {topology: a/machine.xml, graphs_file: graphs.csv, simulated_graphs: 0}\n"
        "    two: {topology: b/machine.xml, graphs_file: graphs.csv, simulated_graphs: 0}\n"
    )
    code, output = snakemake(folder, "results/pcie/trees.topology.parquet", "--cores", "1", "--configfile", "own.yaml")
    assert code != 0
    assert "error: b/machine.xml: holds a topology named 'machine', as does a/machine.xml" in output
    assert not (folder / "results" / "pcie" / "trees.topology.parquet").exists()
    # Predictions use the link speeds of the file, not the parameters of the paper's machine.
    (folder / "own.yaml").write_text((folder / "own.yaml").read_text().partition("    two:")[0])
    code, output = snakemake(folder, "results/pcie/one.prediction.parquet", "--cores", "1", "--configfile", "own.yaml")
    assert code == 0, output
    parameters = duckdb.sql(
        f"SELECT name, value, tag FROM '{folder}/results/pcie/one.parameter.parquet' ORDER BY name"
    ).fetchall()
    # The GPUs of the file state no link, so that the share is that of all generations.
    rate = 8e9 * 128 / 130 * 16 / 8 * pcie_share(None).median
    assert parameters == [
        ("bandwidth", pytest.approx(rate), "derived"),
        ("crossing_cost", 1.0, "assumed"),
        ("tau", 0.0, "assumed"),
    ]
    ((elapsed,),) = duckdb.sql(
        f"SELECT value FROM '{folder}/results/pcie/one.prediction.parquet' WHERE model = 'congestion_factor'"
    ).fetchall()
    assert elapsed == pytest.approx(300 * 2**20 / rate)
