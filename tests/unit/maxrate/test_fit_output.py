"""Output of `fabricast fit`: smallest messages, changes of the protocol, files."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app


@pytest.fixture
def times(tmp_path):
    """Times of 1 and 2 processes, with a change of the protocol at 16 KiB, where the time falls."""
    lines = ["processes,size_bytes,time_s"]
    for count in (1, 2):
        for power in range(3, 21):
            size = 1 << power
            time = 1e-6 + size / 1e9 if size < 16384 else 5e-6 + size / 10e9 * count
            lines.append(f"{count},{size},{time:.9g}")
    (tmp_path / "times.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "times.csv"


def test_latency_and_change_of_the_protocol_are_stated(times):
    result = CliRunner().invoke(app, ["fit", str(times), "--model", "maxrate", "--draws", "20"])
    assert result.exit_code == 0, result.output
    assert "latency at 8 B, 1 process: 1.008 us; s is the start of the fitted protocol" in result.stdout
    assert "the time falls from 9.192 us at 8 KiB to 6.638 us at 16 KiB: the protocol changes there" in result.stdout
    assert "messages below 1 KiB" not in result.stdout


def test_parameters_are_written_and_printed_as_json(times, tmp_path):
    call = ["fit", str(times), "--model", "maxrate", "--draws", "20"]
    result = CliRunner().invoke(app, [*call, "-o", str(tmp_path / "fit.csv"), "--format", "json"])
    assert result.exit_code == 0, result.output
    table, printed = pd.read_csv(tmp_path / "fit.csv"), json.loads(result.stdout)
    assert [row["parameter"] for row in printed] == table["parameter"].tolist()
    assert {"s", "r_c"} <= set(table["parameter"]) and (
        table["low"].dropna() <= table["value"][table["low"].notna()]
    ).all()
    assert CliRunner().invoke(app, [*call, "--format", "xml"]).exit_code != 0


def test_files_with_their_number_of_processes_are_one_data_set(tmp_path):
    for count in (2, 4):
        rows = "".join(
            f"{size} {latency}.{count}\n" for size, latency in ((1, 1), (1024, 2), (65536, 12), (1 << 20, 300))
        )
        (tmp_path / f"k{count}.out").write_text(
            f"# OSU MPI Multi Latency Test v7.2\n# Size          Latency (us)\n{rows}"
        )
    files = [f"{count}={tmp_path / f'k{count}.out'}" for count in (2, 4)]
    result = CliRunner().invoke(app, ["collect", *files, "-o", str(tmp_path / "mine.csv")])
    assert result.exit_code == 0, result.output
    assert "8 cells, processes 2, 4" in result.stdout
