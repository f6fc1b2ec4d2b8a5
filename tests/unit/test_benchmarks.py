"""Ratios of CPU time to peers in the same process, with generous bounds: a regression of speed by a factor fails."""

from functools import partial

import pytest

from benchmarks import table_lines
from benchmarks.__main__ import SAMPLE, Work, line
from benchmarks.clocks import cpu_seconds
from benchmarks.collective_lines import MACHINES, collective_lines
from benchmarks.network_lines import load_lines
from fabricast.pcie.models.evaluation import warm_up


def least(work, rounds=3):
    return min(cpu_seconds(work) for _ in range(rounds))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["max_min", "congestion_factor"])
def test_models_are_faster_than_plain_python(model):
    warm_up()
    work = Work()
    naive_s = cpu_seconds(work.naive) * len(work.pairs) / SAMPLE
    assert naive_s / least(partial(work.ours, model)) > 8  # 33 to 40 on an idle machine


@pytest.mark.slow
def test_ring_orders_with_equal_loads_are_evaluated_one_time():
    (row,) = collective_lines(line, MACHINES[:1], rounds=1)
    assert row["state"] == "ok"
    assert row["ratio"] > 50  # 320 to 470 on an idle machine


@pytest.mark.slow
def test_link_loads_are_faster_than_numpy():
    rows = list(load_lines(line, rounds=3))
    assert [row["state"] for row in rows] == ["ok"] * len(rows)
    assert min(row["ratio"] for row in rows) > 1.5  # 5 to 7 on an idle machine


@pytest.mark.slow
def test_csv_and_parquet_graphs_are_read_at_similar_speed_and_the_command_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(table_lines, "GRAPHS", 30_000)
    table_lines.write_graphs(tmp_path)
    csv, parquet = (
        least(partial(table_lines.read_graphs_by_us, tmp_path / f"graphs.{suffix}")) for suffix in ("csv", "parquet")
    )
    assert 1 / 4 < csv / parquet < 4
    monkeypatch.setattr(table_lines, "GRAPHS", 1000)
    table_lines.write_graphs(tmp_path)
    seconds, memory = table_lines.predicted(tmp_path, "graphs.csv")
    assert seconds > 0 and memory.endswith(" MB")
    assert (tmp_path / "times.parquet").stat().st_size > 0
