"""Default fits: one line for each protocol, the model that the data determine, rates within measured ones."""

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.maxrate.protocols import ProtocolRegressor

SIZES = 2.0 ** np.arange(0, 23)


def eager_and_rendezvous(size):
    """Return one-way times in s with a change of protocol at 16 KiB."""
    return np.where(size < 16384, 1.95e-6 + size / 6e9, 5.2e-6 + size / 23.6e9)


def latency_file(path, time_s, title="Latency Test"):
    rows = [f"{size:.0f} {time * 1e6:.4f}" for size, time in zip(SIZES, time_s, strict=True)]
    path.write_text(f"# OSU MPI {title} v7.2\n# Size Latency (us)\n" + "\n".join(rows) + "\n")
    return path


def rate_file(path, pairs, time_s):
    """Write output of osu_mbw_mr, or osu_bw for one pair."""
    rates = pairs * SIZES / time_s / 1e6
    rows = [f"{size:.0f} {rate:.4f} 1.0" for size, rate in zip(SIZES, rates, strict=True)]
    head = f"# OSU MPI Multiple Bandwidth / Message Rate Test v7\n# [ pairs: {pairs} ] [ window size: 64 ]\n"
    path.write_text(f"{head}# Size MB/s Messages/s\n" + "\n".join(rows) + "\n")
    return path


def shown(*arguments):
    result = CliRunner().invoke(app, ["fit", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_each_protocol_of_one_process_has_a_line(tmp_path):
    path = latency_file(tmp_path / "osu.out", eager_and_rendezvous(SIZES))
    lines = shown(path)
    assert "below 16 KiB: s 1.95 us, r_c 6 GB/s" in lines
    assert "from 16 KiB: s 5.2 us, r_c 23.6 GB/s" in lines
    assert "not determined by these data" not in lines
    assert "-L 1950 -o 0 -g 0 -G 0.1667 -O 0" in lines and "-L 5200 -o 0 -g 0 -G 0.04237 -O 0" in lines
    # Concurrent messages share the link: it has the rate of large messages, not one that two points suggest.
    assert 'bandwidth="2.36e+10Bps"' in lines
    frame = fc.fit_max_rate(path)
    rates = frame[frame["parameter"] == "r_c"].set_index("from_bytes")["value"]
    assert rates.to_dict() == pytest.approx({0.0: 6e9, 16384.0: 23.6e9}, rel=1e-3)
    assert frame["median_error"].max() < 0.01
    assert (frame["largest_error"] >= frame["median_error"]).all()


def test_one_protocol_has_one_line_with_intervals(tmp_path):
    path = latency_file(tmp_path / "osu.out", 2e-6 + SIZES / 10e9)
    lines = shown(path)
    assert (
        "T = s + n / r_c  (messages of n bytes)\n" in lines
        and "r_c  10 GB/s (" in lines
        and "one line for each protocol" not in lines
    )


def test_sizes_select_a_protocol(tmp_path):
    path = latency_file(tmp_path / "osu.out", eager_and_rendezvous(SIZES))
    assert "r_c  6.0" in shown(path, "--largest-bytes", 8192)
    assert "r_c  23.6" in shown(path, "--smallest-bytes", 16384)
    wrong = CliRunner().invoke(app, ["fit", str(path), "--smallest-bytes", "4096", "--largest-bytes", "1024"])
    assert wrong.exit_code != 0


def test_a_formula_that_does_not_fit_is_called_a_misfit(tmp_path):
    path = latency_file(tmp_path / "osu.out", eager_and_rendezvous(SIZES))
    assert "the formula does not fit these times" in shown(path, "--model", "postal")
    assert "the formula does not fit" not in shown(path)


def test_rates_of_windowed_times_are_not_above_measured_ones(tmp_path):
    # Overlapping messages take the larger of gap and transfer.
    files = [
        rate_file(tmp_path / f"k{k}.out", k, np.maximum(2e-7, k * SIZES / min(24e9, k * 23e9)))
        for k in (1, 2, 4, 8, 16)
    ]
    lines = shown(*files)
    frame = fc.fit_max_rate(files)
    rates = frame.dropna(subset=["value"]).set_index("parameter")["value"]
    assert rates["r_n"] <= 24e9 * 1.01
    # One process nearly saturates the node: the simpler model determines more.
    assert set(frame["model"]) == {"maxrate"} and "min(r_n, k r_c)" in lines
    assert "time between messages (gap) at 1 B" in lines and "latency at" not in lines


def test_numbers_of_pairs_precede_files(tmp_path):
    files = [latency_file(tmp_path / f"m{k}.out", 2e-6 + k * SIZES / 10e9, "Multi Latency Test") for k in (1, 4, 16)]
    lines = shown(*(f"{k}={path}" for k, path in zip((1, 4, 16), files, strict=True)))
    assert "1, 4, 16 processes" in lines
    missing = CliRunner().invoke(app, ["fit", str(files[1])])
    assert "processes is unspecified" in str(missing.exception)


def test_a_collective_of_osu_is_no_damage(tmp_path):
    path = latency_file(tmp_path / "osu.out", 2e-6 + SIZES / 10e9, "Allreduce Latency Test")
    with pytest.raises(fc.InputError, match=r"has Allreduce of OSU.*; expected messages between two"):
        fc.fit_max_rate(path)


def test_one_size_per_file_is_one_data_set(tmp_path):
    times = eager_and_rendezvous(SIZES)
    files = []
    for number, size in enumerate(SIZES[::2]):
        path = tmp_path / f"run{number}.out"
        path.write_text(f"# OSU MPI Latency Test v7.2\n# Size Latency (us)\n{size:.0f} {times[2 * number] * 1e6:.4f}\n")
        files.append(path)
    assert "from 16 KiB: s 5.2 us, r_c 23.6 GB/s" in shown(*files)


def test_windowed_and_latency_tests_have_one_gap_per_byte(tmp_path):
    latency = latency_file(tmp_path / "osu_latency.out", eager_and_rendezvous(SIZES))
    windowed = rate_file(tmp_path / "osu_bw.out", 1, np.where(SIZES < 16384, 2e-7 + SIZES / 5e9, 7e-7 + SIZES / 22e9))
    lines = shown(latency, windowed)
    assert "windowed times do not determine L (-G 0.04545)" in lines
    assert lines.rstrip().endswith("-L 1950 -o 0 -g 200 -G 0.04545 -O 0")


def test_the_rate_of_messages_and_a_saturated_node_are_named(tmp_path):
    # Each message needs 10 ns of the node, and one process fills the card.
    files = [
        rate_file(tmp_path / f"k{k}.out", k, np.maximum(np.maximum(2e-7, k * 1e-8), k * SIZES / 24e9))
        for k in (1, 2, 4, 16, 64)
    ]
    lines = shown(*files)
    assert "messages: most measured 100 million per second, of 64 processes at 1 B" in lines
    assert re.search(r"one process reaches \d+% of the rate of all of them", lines)
    assert "1 process (isolated), long messages: 24" in lines and "to determine" not in lines


def test_a_start_outside_the_bounds_ends(tmp_path):
    # The smallest number of processes comes first, and the times fall: starts have no positive time per process.
    files = [rate_file(tmp_path / f"k{k}.out", k, np.maximum(2e-7 / k, k * SIZES / 24e9)) for k in (1, 8)]
    frame = fc.fit_max_rate(files, model="refined_latency", draws=20)
    assert set(frame["parameter"]) == {"s0", "s1", "s2", "r_n", "r_b", "r_i"}


def test_several_processes_alone_do_not_determine_the_rate_of_one(tmp_path):
    size = 2.0 ** np.arange(8, 23)
    rows = pd.DataFrame(
        {"processes": 8, "size_bytes": size, "time_s": 1e-6 + 8 * size / 24e9, "convention": "windowed"}
    )
    fit = fc.fit_max_rate(rows, draws=20).set_index("parameter")
    assert not fit.loc["r_c", "determined"] and np.isnan(fit.loc["r_c", "value"])


def test_a_rate_that_changes_no_time_is_that_of_the_next_protocol():
    size = 2.0 ** np.arange(0, 23)
    time = np.where(size < 64, 1.12e-6, np.where(size < 2**14, 1.27e-6 + size / 6.2e9, 4.0e-6 + size / 24e9))
    rows = pd.DataFrame({"processes": 1, "size_bytes": size, "time_s": time.round(8)})
    fit = fc.fit_max_rate(rows, draws=20)
    rates = fit[fit["parameter"] == "r_c"]["value"]
    assert rates.max() < 30e9 and len(rates) >= 2


def test_overlapping_messages_have_a_gap_and_a_rate(tmp_path):
    overlap = rate_file(tmp_path / "osu_bw.out", 1, np.maximum(2.4e-7, SIZES / 24.6e9))
    assert "T = max(g, n / r_c)" in shown(overlap)
    assert "g 0.24 us, r_c 24.6 GB/s" in shown(overlap)
    assert "-g 240 -G 0.04065" in shown(overlap)
    # Start-up times that add to each message are lines.
    assert "T = max(g, n / r_c)" not in shown(rate_file(tmp_path / "osu_bw2.out", 1, 2e-6 + SIZES / 10e9))


@pytest.mark.parametrize("cut", [4096, 16384, 65536])
def test_small_steps_do_not_move_the_switch_of_protocols(tmp_path, cut):
    steps = 1.1e-6 + 0.12e-6 * (SIZES >= 64) + 0.42e-6 * (SIZES >= 256)
    times = np.where(cut > SIZES, steps + SIZES / 5.2e9, 3.1e-6 + SIZES / 48.4e9)
    split = ProtocolRegressor("postal", fewest_sizes=3).fit(np.column_stack([SIZES, np.ones_like(SIZES)]), times)
    assert split.breakpoints_[-1] == cut
    assert split.regressors_[-1].parameters_["r_c"] == pytest.approx(48.4e9, rel=1e-3)


def test_known_output_of_another_kind_is_left_out_beside_messages(tmp_path):
    latency = latency_file(tmp_path / "osu.out", 2e-6 + SIZES / 10e9)
    other = latency_file(tmp_path / "allreduce.out", 2e-6 + SIZES / 10e9, "Allreduce Latency Test")
    assert "left out: " in shown(latency, other)
    assert "has Allreduce of OSU, which is not fitted" in shown(latency, other)
    assert fc.fit_max_rate([latency, other])["value"].tolist() == fc.fit_max_rate(latency)["value"].tolist()
    (tmp_path / "unknown.txt").write_text("hello\n")
    with pytest.raises(fc.InputError, match="was written by no known program"):
        fc.fit_max_rate([latency, tmp_path / "unknown.txt"])
