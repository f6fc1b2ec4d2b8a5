"""Benchmark output, LogGOPS models, measured pairs and `fabricast fit`."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fabricast.api.messages import write_measurements
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.maxrate.fitting import MaxRateRegressor, blocked_predictions, summarise
from fabricast.maxrate.loggp import LogGOPS, from_maxrate, from_netgauge, read_netgauge, simgrid_properties
from fabricast.maxrate.measured.pairs import largest_pairs, measure_all, read_runs, run_measurements, write_cells
from fabricast.maxrate.measured.ping_pong import COLUMNS
from fabricast.maxrate.measurements import read_measurements
from fabricast.maxrate.models import predict_time
from fabricast.maxrate.protocols import ProtocolRegressor
from fabricast.runtime.mpi_launch import unavailable_reason
from tests.messages import read_measurement_file, read_output

NODECOMM = """Job Id:\t\t\t77.bw
Pingpong for
master:  0, 1
partner: 32, 33
1\t3.0e-06\t3.1e-06\t
256\t4.0e-06\t4.5e-06\t
Pingpong for
master:  0, 1
partner: 16, 17
1\t2.0e-06\t2.1e-06\t
"""
BENCHPRESS = """Timing Max-Rate CPU Ping-Pongs
Size 1\t1.5e-06\t1.7e-06\t
Size 2\t1.6e-06\t1.8e-06\t

Timing GPU Max-Rate Ping Pongs
Size 1\t2.1e-06\t
app 0: ./time_maxrate
"""
OSU_RATE = """# OSU MPI Multiple Bandwidth / Message Rate Test v5.7
# [ pairs: 4 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                       8.00        8000000.00
1048576             12000.00          11444.09
"""
OSU_LATENCY = "# OSU MPI Latency Test v5.7\n# Size          Latency (us)\n0     1.50\n8     1.52\n1024  2.10\n"
OSU_BANDWIDTH = "# OSU MPI Bandwidth Test v5.7\n# Size      Bandwidth (MB/s)\n1024  2048.00\n"
OSU_MULTI = "# OSU MPI Multi Latency Test v5.7\n# Size          Latency (us)\n8     1.60\n"
IMB = """# Benchmarking PingPong
# #processes = 2
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         2.25         0.00
         1024         1000         3.60       284.44
# Benchmarking Uniband
# #processes = 8
       #bytes #repetitions   Mbytes/sec      Msg/sec
         1024         1000      4096.00      4000000
# Benchmarking Biband
# #processes = 8
       #bytes #repetitions   Mbytes/sec      Msg/sec
         1024         1000      8192.00      8000000
"""
NETGAUGE = """# size n PRTT(1,0,s) PRTT(n,0,s) PRTT(n,PRTT(1,0,s),s) L o_s o_r g G lsqu(g,G)
1 10 14.8 23.3 156.9 7.4 0.98 1.14 -nan -nan -nan
"""


def cells(text, tmp_path, **keywords):
    path = tmp_path / "run.out"
    path.write_text(text)
    table = read_output(path, **keywords)
    return [
        (row.path, row.processes, row.size_bytes, pytest.approx(row.time_s), row.convention)
        for row in table.itertuples()
    ]


def test_output_of_every_program_is_read(tmp_path):
    assert cells(NODECOMM, tmp_path)[2:5] == [
        ("network+32", 1, 1024, 4.0e-6, "round_trip"),
        ("network+32", 2, 1024, 4.5e-6, "round_trip"),
        ("network+16", 1, 4, 2.0e-6, "round_trip"),
    ]
    assert cells(BENCHPRESS, tmp_path)[3:] == [("cpu", 2, 8, 1.8e-6, "one_way"), ("gpu", 1, 4, 2.1e-6, "one_way")]
    assert cells(OSU_RATE, tmp_path) == [
        ("osu_bandwidth", 4, 1, 4 / 8e6, "windowed"),
        ("osu_bandwidth", 4, 1048576, 4 * 1048576 / 12e9, "windowed"),
    ]
    assert cells(OSU_LATENCY, tmp_path) == [
        ("osu_latency", 1, 8, 1.52e-6, "one_way"),
        ("osu_latency", 1, 1024, 2.1e-6, "one_way"),
    ]
    assert cells(OSU_BANDWIDTH, tmp_path) == [("osu_bandwidth", 1, 1024, 0.5e-6, "windowed")]
    assert cells(OSU_MULTI, tmp_path, processes=6) == [("osu_latency", 6, 8, 1.6e-6, "one_way")]
    assert cells(IMB, tmp_path) == [
        ("imb_pingpong", 1, 1024, 3.6e-6, "one_way"),
        ("imb_uniband", 4, 1024, 1e-6, "windowed"),
        ("imb_biband", 4, 1024, 1e-6, "windowed"),
    ]
    assert cells(NETGAUGE, tmp_path) == [("netgauge", 1, 1, 14.8e-6, "round_trip")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "was written by no known program, expected output of netgauge, OSU"),
        (OSU_MULTI, "processes is unspecified, and the header names no pairs"),
        ("# OSU MPI Latency Test\n", "no measurements"),
        ("# OSU MPI Latency Test\n8 -1\n", "positive"),
        ("Pingpong for\nmaster: a\n", "is not valid output of nodecomm"),
    ],
)
def test_invalid_outputs_are_rejected_with_their_file(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as caught:
        cells(text, tmp_path)
    assert "run.out" in str(caught.value)


def test_collected_outputs_can_be_read_as_measurements(tmp_path):
    first, second = tmp_path / "a.out", tmp_path / "b.out"
    first.write_text(NODECOMM)
    second.write_text(BENCHPRESS)
    target = tmp_path / "mine.csv"
    assert len(write_measurements([first, second], target)) == 6 + 5
    table = read_measurements(target)
    assert set(table["dataset"]) == {"mine.network+16", "mine.network+32", "mine.cpu", "mine.gpu"}
    assert target.read_text().count("sha256") == 2
    copy = tmp_path / "copy.txt"
    copy.write_text(first.read_text())
    with pytest.raises(InputError, match="both contain 1 processes and 4 bytes"):
        write_measurements([first, copy], target)
    # A file that is named twice is read once.
    assert len(write_measurements([first, first], target)) == 6


def osu_output(pairs, rate=lambda k: min(6e9, 2e9 * k)):
    """Return output of osu_mbw_mr for pairs on one node with 1 us per message."""
    rows = [f"{n} {pairs * n / (1e-6 + pairs * n / rate(pairs)) / 1e6:.4f} 1.0" for n in (2**i for i in range(0, 23))]
    head = f"# OSU MPI Multiple Bandwidth / Message Rate Test v7\n# [ pairs: {pairs} ] [ window size: 64 ]\n"
    return head + "# Size MB/s Messages/s\n" + "\n".join(rows) + "\n"


def test_outputs_with_several_pair_counts_determine_the_rates(tmp_path):
    files = []
    for pairs in (1, 2, 4, 8):
        files.append(tmp_path / f"osu_k{pairs}.out")
        files[-1].write_text(osu_output(pairs))
    result = CliRunner().invoke(app, ["collect", *map(str, files), "-o", str(tmp_path / "mine.csv")])
    assert "data set 'mine', 92 cells, processes 1, 2, 4, 8" in result.output
    lines = CliRunner().invoke(app, ["fit", str(tmp_path / "mine.csv"), "--model", "maxrate"]).output
    assert re.search(r"r_n  (5\.9\d*|6|6\.0\d*) GB/s", lines)
    assert re.search(r"r_c  (1\.9\d*|2|2\.0\d*) GB/s", lines)
    refined = CliRunner().invoke(app, ["fit", str(tmp_path / "mine.csv")]).output
    assert re.search(r"r_b  (1\.9\d*|2|2\.0\d*) GB/s", refined)


@pytest.mark.parametrize(
    ("pairs", "together"),
    [(8, "8 processes together, long messages: 6"), (1, "1 process (isolated), long messages: 2")],
)
def test_single_pair_count_determines_only_the_total_rate(tmp_path, pairs, together):
    path = tmp_path / "osu.out"
    path.write_text(osu_output(pairs))
    lines = CliRunner().invoke(app, ["fit", str(path), "--model", "maxrate"]).output
    assert "r_n  not determined by these data" in lines
    assert "r_c  not determined by these data" in lines
    assert together in lines
    assert "to determine r_n: more processes" in lines
    assert ("-G 0.5" in lines) == (pairs == 1), lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (osu_output(2).replace("pairs: 2", "pairs: 0"), "pairs is 0"),
        (osu_output(2).replace("pairs: 2", "pairs: " + "1" * 26), "pairs is 1111"),
        (osu_output(2).replace("\n4 ", "\n4\0 "), "NUL byte"),
        (osu_output(2).replace("\n4 ", "\n4 x"), "in a row of numbers"),
        (osu_output(2) + "16 5e-324 1\n", "expected positive numbers"),
    ],
)
def test_damaged_rows_are_rejected_instead_of_skipped(tmp_path, text, message):
    path = tmp_path / "osu.out"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_measurement_file(path)


@pytest.mark.parametrize(
    "title", ["Allreduce Latency", "Multi-threaded Latency", "All-to-All Personalized Exchange Latency"]
)
def test_unsupported_osu_tests_are_rejected_with_their_line(tmp_path, title):
    path = tmp_path / "osu.out"
    path.write_text(f"# OSU MPI {title} Test v7\n# Size Latency (us)\n1 2.0\n2 2.1\n")
    with pytest.raises(InputError, match=r"osu\.out: has .* of OSU.*; expected messages between"):
        read_measurement_file(path)


def test_bidirectional_bandwidth_counts_both_directions(tmp_path):
    path = tmp_path / "osu.out"
    path.write_text("# OSU MPI Bi-Directional Bandwidth Test v7\n# Size Bandwidth (MB/s)\n1048576 20000 Pass\n")
    (time_s,) = read_measurement_file(path)["time_s"]
    assert time_s == pytest.approx(2 * 1048576 / 20e9)


def test_collect_requires_files_and_plain_names(tmp_path):
    path = tmp_path / "osu.out"
    path.write_text(osu_output(2))
    for arguments in (["-", "-o", str(tmp_path / "a.csv")], [str(path), "-o", str(tmp_path / "a.csv"), "--name", "#x"]):
        assert isinstance(CliRunner().invoke(app, ["collect", *arguments]).exception, InputError)
    assert not (tmp_path / "a.csv").exists()


def test_newline_in_a_file_name_does_not_break_the_collected_file(tmp_path):
    path = tmp_path / "a\nprocesses,b.out"
    path.write_text(osu_output(2))
    write_measurements([path], tmp_path / "mine.csv")
    assert len(read_measurements(tmp_path / "mine.csv")) == 23


def test_netgauge_parameters_of_the_public_table(shared_data):
    table = read_netgauge_csv(shared_data / "maxrate" / "netgauge_loggp_tukey.csv")
    parameters = from_netgauge(table)
    # studies/maxrate.md, section 3.
    assert parameters.latency_s == pytest.approx(7.404006e-6)
    assert parameters.overhead_s == pytest.approx(0.98159e-6, rel=1e-4)
    assert parameters.rendezvous_bytes == 8192
    assert parameters.gap_s_per_byte == pytest.approx(0.496e-9, rel=0.01)


def read_netgauge_csv(path):
    raw = pd.read_csv(path)
    return pd.DataFrame(
        {
            "size_bytes": raw["n_bytes"],
            "messages": raw["n_msgs"],
            "single_s": raw["prtt_1_0_s_us"] * 1e-6,
            "train_s": raw["prtt_n_0_s_us"] * 1e-6,
            "delayed_s": raw["prtt_n_d_s_us"] * 1e-6,
        }
    )


def test_netgauge_estimators_recover_the_parameters(tmp_path):
    truth = LogGOPS(5e-6, 1e-6, 2e-6, 1e-9)
    lines = ["# size n PRTT(1,0,s) PRTT(n,0,s) PRTT(n,PRTT(1,0,s),s)"]
    for size in 2 ** np.arange(0, 20):
        single = 2 * truth.time_s(float(size))
        each = truth.gap_s + (size - 1) * truth.gap_s_per_byte
        delayed = single + 9 * (single + truth.overhead_s)
        values = [single, single + 9 * each, delayed]
        lines.append(f"{size} 10 " + " ".join(f"{v * 1e6:.9f}" for v in values))
    path = tmp_path / "netgauge.out"
    path.write_text("\n".join(lines))
    parameters = from_netgauge(read_netgauge(path))
    assert parameters.latency_s == pytest.approx(truth.latency_s + 2 * truth.overhead_s)
    assert (parameters.overhead_s, parameters.gap_s) == pytest.approx((truth.overhead_s, truth.gap_s), rel=1e-4)
    assert parameters.gap_s_per_byte == pytest.approx(truth.gap_s_per_byte, rel=1e-4)
    assert math.isinf(parameters.rendezvous_bytes)
    path.write_text("1 10 x\n")
    with pytest.raises(InputError, match=r"netgauge.out:1"):
        read_netgauge(path)


@given(st.floats(1e-7, 1e-5), st.floats(1e8, 1e11), st.floats(1, 1e7))
def test_conversion_to_loggp_preserves_one_way_times(start, rate, size):
    model = {"s": start, "r_b": rate}
    for convention, messages in (("round_trip", 2), ("one_way", 1)):
        converted = from_maxrate(model, convention, overhead_s=start / messages / 4)
        expected = (start + size / rate) / messages
        # LogGP includes the first byte in o and L.
        assert converted.time_s(size) == pytest.approx(expected, rel=1e-6, abs=1.01 / rate)
    assert converted.time_s(size, 3) >= converted.time_s(size)
    with pytest.raises(InputError, match="at most half"):
        from_maxrate(model, "one_way", overhead_s=start)


def test_limits_of_loggops():
    logp = LogGOPS(5e-6, 1e-6, 2e-6, 0.0)
    assert logp.time_s(1) == logp.time_s(10_000) == pytest.approx(7e-6)
    assert logp.time_s(1, 4) == pytest.approx(7e-6 + 3 * 2e-6)
    eager = LogGOPS(5e-6, 1e-6, 2e-6, 1e-9, 0.0, 8192)
    assert eager.time_s(8193) - eager.time_s(8192) == pytest.approx(2 * 7e-6 + 1e-9)
    processor = LogGOPS(5e-6, 1e-6, 2e-6, 1e-9, 1e-9)
    assert processor.time_s(1001) - LogGOPS(5e-6, 1e-6, 2e-6, 1e-9).time_s(1001) == pytest.approx(2e-6)


def test_simgrid_factors_reproduce_the_times():
    size = 2.0 ** np.arange(2, 20)
    small, large = {"s": 2e-6, "r_c": 1e9}, {"s": 8e-6, "r_c": 5e9}
    data = np.column_stack([size, np.ones_like(size)])
    times = np.where(size < 8192, *(predict_time("postal", p, data[:, 0], data[:, 1]) for p in (small, large)))
    lines = simgrid_properties(ProtocolRegressor("postal", breakpoints=[8192.0]).fit(data, times), "one_way")
    assert 'bandwidth="5e+09Bps" latency="2e-06s"' in lines[0]
    assert 'id="smpi/lat-factor" value="0:1;8191:4"' in lines[1]
    assert 'id="smpi/bw-factor" value="0:0.2;8191:1"' in lines[2]
    with pytest.raises(InputError, match="windowed"):
        simgrid_properties(ProtocolRegressor("postal").fit(data, times), "windowed")


def test_cross_validation_leaves_out_whole_blocks():
    rng = np.random.default_rng(3)
    size, k = (a.ravel() for a in np.meshgrid(2.0 ** np.arange(3, 18), np.arange(1.0, 9.0)))
    data = np.column_stack([size, k])
    truth = {"s": 3e-6, "r_n": 6e9, "r_b": 3e9, "r_i": 1e9}
    times = predict_time("refined", truth, size, k) * rng.normal(1, 0.01, size.size)
    times[k == 5] *= 3.0  # one outlier among the process counts
    unseen = blocked_predictions(MaxRateRegressor("refined", starts=4), data, times, k)
    odd = np.abs(unseen / times - 1)[k == 5]
    assert odd.min() > 0.5, "a fit without 5 processes must not predict the outlier"
    assert summarise(unseen[k != 5], times[k != 5]).median < 0.03
    single_block = blocked_predictions(MaxRateRegressor("refined", starts=4), data, times, np.ones_like(k))
    assert np.isnan(single_block).all()


def test_cells_are_computed_from_the_quiet_bursts_of_all_runs(tmp_path):
    rows = [
        ",".join(COLUMNS),
        "1,8,0,100,1e-6,2e-6,2e-6,2.2e-6,3e-6,9e-6,2e-6,0.1",
        "1,8,1,100,1e-7,1e-7,2e-6,9e-6,3e-5,9e-5,2e-5,8.0",
    ]
    (tmp_path / "shared_memory.a.csv").write_text("\n".join(rows))
    (tmp_path / "shared_memory.b.csv").write_text("\n".join(rows[:2]).replace("2e-6,2e-6,2.2", "1.9e-6,2e-6,2.2"))
    table = run_measurements(read_runs(sorted(tmp_path.glob("*.csv"))), system="here")
    assert table["time_s"].tolist() == [1.9e-6], "the noisy burst must be excluded although it is faster"
    assert table["repetitions"].tolist() == [2]
    assert table["dataset"].tolist() == ["this_machine.shared_memory"]


@pytest.mark.slow
def test_pairs_are_measured_on_this_machine_and_saved_as_runs(tmp_path):
    reason = unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    settings = {
        "sizes": [8, 16384],
        "bursts": 2,
        "seconds": 0.005,
        "pairs": 1,
        "launcher": "mpiexec",
        "environment": {},
    }
    for expected in (2, 4):
        assert measure_all(tmp_path / "runs", ["shared_memory", "tcp"], settings) is None
        assert len(list((tmp_path / "runs").glob("*.csv"))) == expected
    write_cells(tmp_path / "runs", tmp_path / "this_machine.csv", None)
    assert (tmp_path / "this_machine.csv").read_text().startswith("# 4 runs, 16 bursts")
    runs = read_runs(sorted((tmp_path / "runs").glob("*.csv")))
    assert (runs["t_min_s"] <= runs["t_p05_s"]).all()
    assert (runs["t_p05_s"] <= runs["t_p50_s"]).all()
    assert 1e-7 < runs["t_p50_s"].min() < 1e-2


def test_missing_mpi_is_reported_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "fabricast.maxrate.measured.pairs.unavailable_reason", lambda launcher: "mpi4py is not installed"
    )
    reason = measure_all(tmp_path, ["tcp"], {"launcher": "mpiexec", "pairs": None})
    assert capsys.readouterr().err == "nothing measured: mpi4py is not installed\n"
    write_cells(tmp_path, tmp_path / "cells.csv", reason)
    assert (tmp_path / "cells.csv").read_text() == "# nothing measured: mpi4py is not installed\n"
    assert largest_pairs(forced=3) == 3


def test_fit_command(tmp_path):
    runner = CliRunner()
    path = tmp_path / "run.out"
    path.write_text(OSU_RATE.replace("12000.00", "inf"))
    assert isinstance(runner.invoke(app, ["fit", str(path)]).exception, InputError)
    sizes = 2 ** np.arange(3, 20)
    truth = {"s": 3e-6, "r_n": 6e9, "r_b": 3e9, "r_i": 1e9}
    noise = np.random.default_rng(5).normal(1, 0.005, (sizes.size, 4))
    lines = ["Timing Max-Rate CPU Ping-Pongs"]
    for row, size in enumerate(sizes):
        times = [
            predict_time("refined", truth, np.array([4.0 * size]), np.array([float(k)]))[0] * noise[row, i % 4]
            for i, k in enumerate(range(1, 9))
        ]
        lines.append(f"Size {size}\t" + "\t".join(f"{t:.9e}" for t in times))
    path.write_text("\n".join(lines) + "\n")
    result = runner.invoke(app, ["fit", str(path), "--draws", "20"])
    assert result.exit_code == 0, result.output
    fitted = {line.split()[0]: line for line in result.output.splitlines()[2:6]}
    assert [float(fitted[name].split()[1]) for name in ("s", "r_n", "r_b", "r_i")] == pytest.approx(
        [3, 6, 3, 1], rel=0.02
    )
    assert "-L 30" in result.output or "-L 29" in result.output
    assert 'id="smpi/bw-factor"' in result.output
    target = tmp_path / "mine.csv"
    assert runner.invoke(app, ["collect", str(path), "-o", str(target)]).exit_code == 0
    assert len(read_measurement_file(target)) == sizes.size * 8
    for arguments in (
        ["fit", str(path), "--model", "magic"],
        ["fit", str(path), "--smallest-bytes", "1e9"],
        ["fit", str(path), "--draws", "1"],
    ):
        assert isinstance(runner.invoke(app, arguments).exception, InputError), arguments


def test_estimators_pass_the_applicable_scikit_learn_checks():
    from sklearn.utils.estimator_checks import check_estimator

    refused = ("expected 2: size in bytes", "processes at least 1", "Negative values in data", "1 feature", "1 sample")
    results = check_estimator(MaxRateRegressor("postal", starts=2), on_fail=None, on_skip=None)
    failed = [r for r in results if r["status"] == "failed" and not any(t in str(r["exception"]) for t in refused)]
    assert failed == [], "checks may fail only if their data are not sizes and processes"
    assert sum(r["status"] == "passed" for r in results) >= 25


def test_cross_validation_by_job_on_the_public_runs(shared_data):
    raw = pd.read_csv(shared_data / "maxrate" / "bluewaters_nodecomm.csv")
    rows = raw[(raw["scope"] == "network_irecv") & (raw["node_offset_ranks16"] == 2)]
    data, times = rows[["n_bytes", "k"]].to_numpy(float), rows["t_pingpong_s"].to_numpy()
    split = ProtocolRegressor("overload", starts=2).fit(data, times)
    again = ProtocolRegressor("overload", starts=2, breakpoints=split.breakpoints_)
    unseen = summarise(blocked_predictions(again, data, times, rows["job"].to_numpy()), times)
    assert unseen.median < 0.04
    assert unseen.p90 < 0.12


def test_runs_over_many_node_pairs_are_those_of_one_pair(tmp_path):
    """Every node pair sends at the same time: k processes on each of P pairs of nodes move k P messages."""
    one, many = tmp_path / "one.txt", tmp_path / "many.txt"
    head = "# OSU MPI Multiple Bandwidth / Message Rate Test v7\n# [ pairs: {} ] [ window size: 64 ]\n"
    rows = {2**i: 4 * 2**i / (2e-6 + 2**i / 3e9) / 1e6 for i in range(4, 20)}
    one.write_text(head.format(4) + "".join(f"{size} {rate:.6f} 1000.0\n" for size, rate in rows.items()))
    many.write_text(head.format(32) + "".join(f"{size} {8 * rate:.6f} 1000.0\n" for size, rate in rows.items()))
    pd.testing.assert_frame_equal(
        read_output(many, node_pairs=8).drop(columns="file"), read_output(one).drop(columns="file"), rtol=1e-5
    )
    with pytest.raises(InputError, match="node_pairs is 5, expected a divisor of the 32 pairs of processes"):
        read_output(many, node_pairs=5)
    result = CliRunner().invoke(app, ["fit", str(many), "--node-pairs", "8", "--draws", "20"])
    assert result.exit_code == 0, result.output
    assert "16 sizes, 4 processes" in result.output
    result = CliRunner().invoke(app, ["collect", str(many), "--node-pairs", "8", "-o", str(tmp_path / "all.csv")])
    assert "processes 4" in result.output, result.output


def test_errors_name_the_argument_or_the_test_that_helps(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("# OSU MPI Multi Latency Test v7\n# Size Latency (us)\n1 1.2\n1024 2.0\n")
    with pytest.raises(
        InputError, match=r"run.txt:3: processes is unspecified, and the header names no pairs"
    ) as caught:
        read_output(path)
    assert caught.value.argument == "processes"
    assert read_output(path, processes=4)["processes"].tolist() == [4, 4]
    path.write_text("# Benchmarking Sendrecv\n# #processes = 4\n 0 1000 1.2 1.3 1.25 0.0\n")
    with pytest.raises(
        InputError, match="has Sendrecv of IMB, 4 processes.*; expected messages between two processes or pairs"
    ):
        read_output(path)


@pytest.mark.parametrize(
    ("dataset", "scope", "offset"),
    [
        ("bluewaters_irecv_1", "network_irecv", 1),
        ("bluewaters_irecv_2", "network_irecv", 2),
        ("bluewaters_blocking_2", "network", 2),
    ],
)
def test_each_public_run_has_the_same_jobs_for_every_process_count(shared_data, dataset, scope, offset):
    raw = pd.read_csv(shared_data / "maxrate" / "bluewaters_nodecomm.csv")
    rows = raw[(raw["scope"] == scope) & (raw["node_offset_ranks16"] == offset) & (raw["launched_pairs"] == 16)]
    rows = rows[~rows["file"].str.contains("off_node")]
    groups = rows.groupby(["k", "n_bytes"])["t_pingpong_s"]
    stored = read_measurements(published() / "maxrate_measurements.csv")
    stored = stored[stored["dataset"] == dataset].set_index(["processes", "size_bytes"])
    expected = groups.median().rename_axis(stored.index.names)
    assert set(groups.size()) == {3} == set(stored["repetitions"])
    assert stored["time_s"].to_numpy() == pytest.approx(expected.loc[stored.index].to_numpy(), rel=1e-6)
