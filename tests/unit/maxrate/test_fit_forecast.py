"""Times that a fit of messages forecasts."""

import re

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError

SIZES = [2**power for power in range(0, 23, 2)]


@pytest.fixture
def files(tmp_path):
    """Return outputs of osu_mbw_mr of 1 to 16 pairs: a start of 0.3 us, 5 GB/s of a process, 24 GB/s of the node."""
    paths = []
    for pairs in (1, 2, 4, 8, 16):
        path = tmp_path / f"k{pairs}.out"
        rows = ""
        for size in SIZES:
            time_us = 0.3 + size * pairs / min(5.0 * pairs, 24.0) / 1e3
            rows += f"{size} {size * pairs / time_us:.2f} {pairs / time_us * 1e6:.2f}\n"
        path.write_text(
            f"# OSU MPI Multiple Bandwidth / Message Rate Test v7.2\n# [ pairs: {pairs} ] [ window size: 64 ]\n"
            f"# Size                  MB/s        Messages/s\n{rows}"
        )
        paths.append(str(path))
    return paths


def lines(files, forecast):
    output = CliRunner().invoke(app, ["fit", *files, "--draws", "20", "--forecast", forecast]).output
    return [line.strip() for line in output.splitlines() if "forecast:" in line]


def test_a_fit_of_several_processes_forecasts_others(files):
    inside, beyond = lines(files, "12x1MiB 32x1MiB")
    assert inside.startswith("forecast: 12 processes, 1 MiB: ") and "beyond" not in inside
    rate = float(re.search(r"([\d.]+) GB/s in total", inside)[1])
    assert rate == pytest.approx(24.0, rel=0.05)
    assert "beyond the measured processes and sizes" in beyond


def test_a_fit_of_one_process_says_nothing_about_others(files):
    own, others = lines(files[:1], "1x1MiB 8x1MiB")
    assert float(re.search(r"([\d.]+) GB/s in total", own)[1]) == pytest.approx(5.0, rel=0.05)
    assert others.endswith("unknown, the data have 1 process only")


@pytest.mark.parametrize("forecast", ["16", "x8", "0x8", "4x"])
def test_bad_cells_are_refused(files, forecast):
    result = CliRunner().invoke(app, ["fit", *files, "--forecast", forecast])
    assert isinstance(result.exception, InputError)


def test_a_word_that_is_no_file_is_named(files):
    result = CliRunner().invoke(app, ["fit", files[0], "--smallest-bytes", "16", "KB"])
    assert "KB: is no file; a size with a blank needs quotes" in str(result.exception)
