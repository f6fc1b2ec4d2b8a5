"""Tests of the terminal output and the log file of a run."""

import re
import shutil

from tests.running import SMOKE, copy_project, snakemake

TARGET = "results/breakdown/all.error_band.parquet"
LINE = re.compile(r" +\d+/\d+ +\d+ s  \w+.*")


def test_terminal_has_one_line_per_job_and_the_log_file_has_details(tmp_path):
    folder = copy_project(tmp_path)
    code, output = snakemake(folder, TARGET, *SMOKE, "--cores", "1")
    assert code == 0, output
    lines = output.splitlines()[1:]  # the first line is from Snakemake's command line: the profile in use
    assert lines[0] == "2 jobs"
    assert [bool(LINE.fullmatch(line)) for line in lines[1:-1]] == [True, True]
    assert re.fullmatch(r"fabricast: done in \d+ s", lines[-1])
    (log,) = (folder / ".snakemake" / "log").glob("*.log")
    assert "rule evaluate_breakdown:" in log.read_text()
    assert "output: results/breakdown" in log.read_text()

    # Output of Snakemake options is in Snakemake's format.
    shutil.rmtree(folder / "results" / "breakdown")
    code, output = snakemake(folder, TARGET, *SMOKE, "--cores", "1", "--forcerun", "compare_study", "--printshellcmds")
    assert code == 0, output
    assert "rule compare_study:" in output
    assert "Job stats:" in snakemake(folder, TARGET, *SMOKE, "--forcerun", "compare_study", "--dry-run")[1]


def test_failed_job_shows_the_end_of_its_log(tmp_path):
    folder = copy_project(tmp_path)
    (folder / "graphs.csv").write_text("graph,source,target\ng,0,9\n")
    (folder / "own.yaml").write_text(
        "pcie: {graph_sets: {mine: {topology: storm8, graphs_file: graphs.csv, simulated_graphs: 0}}}\n"
    )
    code, output = snakemake(folder, "results/pcie/mine.graph.parquet", "--cores", "1", "--configfile", "own.yaml")
    assert code != 0
    assert "failed: generate_pcie_graphs" in output
    assert "log: logs/generate_pcie_graphs.mine.log" in output
    assert "| error: graphs.csv:2: target is '9'" in output
    assert "Traceback" not in output
