"""Time of the operations of a training step."""

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.collectives.gradients import step_text
from fabricast.core.number_text import duration_text
from fabricast.nccl.costs import Operation

NODE = ["collective", "--node", "hgx_h100", "--nodes", "4", "--nic", "8x400"]


@pytest.mark.parametrize("form", ["table", "csv"])
def test_the_time_of_a_step_is_that_of_its_buckets(form):
    result = CliRunner().invoke(app, [*NODE, "--gradients", "14GB", "--format", form])
    bucket = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", sizes=["25 MiB"]).table.iloc[0]
    line = f"14 GB of gradients, 535 buckets of 25 MiB: {duration_text(535 * bucket['time_us'] * 1e-6)} of all_reduce"
    assert line in (result.stdout if form == "table" else result.stderr)
    assert ("gradients" in result.stdout) == (form == "table")


def test_another_size_is_that_of_a_bucket():
    result = CliRunner().invoke(app, [*NODE, "--gradients", "1GB", "--sizes", "100MB", "--format", "table"])
    assert "1 GB of gradients, 10 buckets of 95.37 MiB" in result.stdout


def test_several_sizes_of_a_bucket_are_refused():
    result = CliRunner().invoke(app, [*NODE, "--gradients", "1GB", "--sizes", "1MiB 2MiB"])
    assert result.exit_code != 0 and "expected the size of one bucket" in str(result.exception)


def test_bounds_are_named_as_such():
    table = fc.cluster_collective("hgx_h100", nodes=4, gpudirect=False, sizes=["25 MiB"]).table
    assert "at least" in step_text(table, Operation.ALL_REDUCE, 14e9)
