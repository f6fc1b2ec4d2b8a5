"""Output of `fabricast fit`: smallest messages, changes of the protocol, files."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
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


def mbw_mr(path, pairs):
    """Write output of osu_mbw_mr: 0.4 us per message, 10 GB/s per pair, 24 GB/s per node."""
    lines = ["# OSU MPI Multiple Bandwidth / Message Rate Test v7.3", f"# [ pairs: {pairs} ] [ window size: 64 ]"]
    lines.append("# Size                  MB/s        Messages/s")
    for power in range(21):
        size = 1 << power
        rate = pairs / (0.4e-6 + size / min(10e9, 24e9 / pairs))
        lines.append(f"{size:<10} {rate * size / 1e6:20.4f} {rate:20.2f}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_outputs_with_different_process_counts_are_fitted_together(tmp_path):
    files = [mbw_mr(tmp_path / f"mbw_{pairs}.out", pairs) for pairs in (1, 2, 4, 8)]
    fitted = fc.fit_max_rate(files, model="maxrate", draws=20).set_index("parameter")
    assert fitted["determined"].all()
    assert fitted["value"].to_dict() == pytest.approx({"s": 0.4e-6, "r_n": 24e9, "r_c": 10e9}, rel=0.02)
    shown = CliRunner().invoke(app, ["fit", *files, "--model", "maxrate", "--draws", "20"])
    assert "osu_bandwidth (4 files): 84 times, 1, 2, 4, 8 processes" in shown.stdout
    assert len(fc.fit_max_rate([*files, files[0]], model="maxrate", draws=20)) == 3
    # The same process count twice: two machines or two runs.
    (tmp_path / "again").mkdir()
    twice = [files[0], mbw_mr(tmp_path / "again" / "other.out", 1)]
    assert fc.fit_max_rate(twice, model="postal", draws=20)["dataset"].nunique() == 2


def test_latency_and_message_rate_are_one_line_of_loggops(tmp_path):
    lines = ["# OSU MPI Latency Test v7.3", "# Size          Latency (us)"]
    lines += [f"{1 << power:<10} {1.8 + (1 << power) / 10e3:20.4f}" for power in range(21)]
    (tmp_path / "latency.out").write_text("\n".join(lines) + "\n")
    files = [mbw_mr(tmp_path / "mbw.out", 1), str(tmp_path / "latency.out")]
    last = CliRunner().invoke(app, ["fit", *files, "--draws", "20"]).stdout.splitlines()[-1]
    assert last.startswith("LogGOPS (ns), L from latency.osu_latency, g and G from mbw.osu_bandwidth")
    assert last.endswith("-L 1800 -o 0 -g 400 -G 0.1 -O 0")


def test_undetermined_parameters_have_no_value_in_tables(tmp_path):
    path = tmp_path / "fit.csv"
    file = mbw_mr(tmp_path / "mbw.out", 1)
    assert CliRunner().invoke(app, ["fit", file, "--model", "refined", "--draws", "20", "-o", str(path)]).exit_code == 0
    table, from_python = pd.read_csv(path), fc.fit_max_rate(file, model="refined", draws=20)
    assert table["determined"].tolist() == from_python["determined"].tolist() == [True, False, False, False]
    assert table["value"].isna().tolist() == [False, True, True, True]


def test_stated_pairs_and_cut_rows_are_named(tmp_path):
    file = mbw_mr(tmp_path / "mbw.out", 8)
    result = CliRunner().invoke(app, ["collect", f"4={file}", "-o", str(tmp_path / "x.csv")])
    assert str(result.exception) == f"{file}:4: states 8 pairs of processes, not 4"
    assert not (tmp_path / "x.csv").exists()
    (tmp_path / "mbw.out").write_text((tmp_path / "mbw.out").read_text().rpartition(" ")[0].rstrip())
    shown = CliRunner().invoke(app, ["fit", file, "--draws", "20"]).stdout
    assert (
        f"left out: {file}:24: is not valid OSU output: has 2 numbers, expected 3 as the rows before: it is cut"
        in shown
    )


def osu(path, title, rows):
    """Write output of an OSU test."""
    path.write_text(f"# OSU MPI {title} Test v7.3\n# Size  Value\n" + "".join(f"{n}  {x:.6g}\n" for n, x in rows))
    return str(path)


def overlapping(largest):
    return [(1 << power, (1 << power) / max(0.25e-6, (1 << power) / 24e9) / 1e6) for power in range(largest)]


def test_text_and_table_of_a_windowed_test_are_of_one_model(tmp_path):
    file = osu(tmp_path / "bw.out", "Bandwidth", overlapping(23))
    table = fc.fit_max_rate(file, draws=20)
    assert set(table["model"]) == {"windowed"}
    assert table.set_index("parameter")["value"].to_dict() == pytest.approx({"g": 0.25e-6, "r_c": 24e9}, rel=1e-3)
    assert "g 0.25 us, r_c 24 GB/s" in CliRunner().invoke(app, ["fit", file]).stdout


def test_small_messages_determine_no_rate(tmp_path):
    file = osu(tmp_path / "bw.out", "Bandwidth", overlapping(8))
    table = fc.fit_max_rate(file, draws=20).set_index("parameter")
    assert table["determined"].to_dict() == {"g": True, "r_c": False} and pd.isna(table["value"]["r_c"])
    shown = CliRunner().invoke(app, ["fit", file]).stdout
    assert "-G" not in shown and "r_c: messages of 64 KiB or more" in shown


@pytest.mark.parametrize(("slower", "words"), [([], "still rises"), ([(1 << 24, 2600.0)], "slower again")])
def test_larger_messages_are_slower_only_if_there_are_any(tmp_path, slower, words):
    sizes = (1, 8, 64, 512, 4096, 65536, 1 << 20, 1 << 22)
    rows = list(zip(sizes, (1.21, 1.22, 1.3, 1.71, 3.02, 11.3, 102.11, 395.5), strict=True))
    shown = CliRunner().invoke(app, ["fit", osu(tmp_path / "lat.out", "Latency", rows + slower)]).stdout
    (line,) = [one for one in shown.splitlines() if "faster than the line" in one]
    assert words in line


def test_parameters_of_netgauge_that_contradict_each_other_are_not_printed(tmp_path):
    rows = "1 10 2.10 4.02 20.60 1.05 0.21 0.22 -nan -nan -nan\n1025 10 2.90 5.10 28.90 1.05 0.22 0.24 0.21 0.00006 0.002\n"
    more = "2049 10 3.31 6.02 33.10 1.05 0.24 0.26 0.214 0.00006 0.003\n4097 10 4.1 7.6 41.7 1.05 0.28 0.3 0.2 0.00006 0.003\n"
    head = (
        "## Netgauge v2.4.6 - loggp\n# size n PRTT(1,0,s) PRTT(n,0,s) PRTT(n,PRTT(1,0,s),s) L o_s o_r g G lsqu(g,G)\n"
    )
    (tmp_path / "netgauge.out").write_text(head + rows + more)
    shown = CliRunner().invoke(app, ["fit", str(tmp_path / "netgauge.out")]).stdout
    assert "not determined (its trains of messages contradict its single messages" in shown and "nan" not in shown


def test_process_counts_of_files_may_be_named_in_python(tmp_path):
    files = [
        osu(tmp_path / f"k{k}.out", "Multi Latency", [(n, 1.0 + n * k / 1e4) for n in (1, 8, 64, 512)]) for k in (1, 4)
    ]
    found = fc.fit_max_rate(files, processes={files[0]: 1, files[1]: 4}, model="maxrate", draws=20)
    assert len(found) == 3
    with pytest.raises(fc.InputError):
        fc.fit_max_rate(files, processes={files[0]: 0})
