"""Output of benchmarks below MPI, and their comparison with a breakdown."""

import re

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.api.breakdown import load_system
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.conftest import REPOSITORY
from tests.messages import read_output

UCX_LATENCY = """[1741244344.655540] [node01:1963139:0]        perftest.c:800  UCX  WARN  CPU affinity is not set.
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
[thread 0]            417405      1.190     1.198     1.198        6.37       6.37      834809      834809
Final:               1000000      1.190     1.206     1.204        6.33       6.34      829187      830801
"""
UCX_BANDWIDTH = (
    UCX_LATENCY.replace(" latency (usec) ", "overhead (usec) ")
    .replace("1.204", "0.150")
    .replace("6.33       6.34      829187      830801", "50.86      50.86     6666667     6666667")
)
BOX = """+------------------------------------------------------------------------------------------+
| API:          {api} layer                                                             |
| Test:         {test}                                                        |
| Send memory:  host                                                                       |
| Message size: {size}                                                                         |
+------------------------------------------------------------------------------------------+
"""
UCX_OLD = """+--------------+-----------------------------+---------------------+-----------------------+
|              |       latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+---------+---------+---------+----------+----------+-----------+-----------+
| # iterations | typical | average | overall |  average |  overall |   average |   overall |
+--------------+---------+---------+---------+----------+----------+-----------+-----------+
{box}         66276     1.190     1.206     1.204        6.33       6.34      829187      830801
"""
IB_LATENCY = """---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Mtu             : 4096[B]
---------------------------------------------------------------------------------------
 local address: LID 0x01 QPN 0x004c PSN 0x3a0d1f
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
Conflicting CPU frequency values detected: 2428.573000 != 3004.218000. CPU Frequency is not max.
 2       1000          1.01           3.52         1.03     	       1.04        	0.06   		1.22    		3.52   
 4       1000          1.02           3.50         1.04     	       1.05        	0.06   		1.23    		3.50   
---------------------------------------------------------------------------------------
"""  # noqa: W291
IB_BANDWIDTH = """                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 8          5000             25.80              25.43                3.333333
 65536      5000             11030.78            11030.45\t\t     0.176487
"""


def times(path, text, **options):
    path.write_text(text)
    table = read_output(path, **options)
    return {
        (row.path, row.size_bytes): (pytest.approx(row.time_s, rel=1e-4), row.convention) for row in table.itertuples()
    }


def test_ucx_perftest_is_read(tmp_path):
    path = tmp_path / "ucx.txt"
    # The client prints no size: 6.34 MiB/s in 1.204 us are 8 bytes.
    assert times(path, UCX_LATENCY) == {("ucx_latency", 8): (1.204e-6, "one_way")}
    assert times(path, UCX_BANDWIDTH) == {("ucx_bandwidth", 8): (0.15e-6, "windowed")}
    command = "$ ucx_perftest node02 -t tag_lat -s 8\n"
    assert times(path, command + UCX_LATENCY) == {("tag_latency", 8): (1.204e-6, "one_way")}
    both = command + UCX_LATENCY + command.replace("_lat", "_bw") + UCX_BANDWIDTH
    assert times(path, both) == {("tag_latency", 8): (1.204e-6, "one_way"), ("tag_bandwidth", 8): (0.15e-6, "windowed")}
    box = BOX.format(api="transport", test="am latency", size=8)
    assert times(path, UCX_OLD.format(box=box)) == {("transport_latency", 8): (1.204e-6, "one_way")}
    # Old versions print latency for bandwidth tests too.
    box = BOX.format(api="protocol", test="tag match bandwidth", size=7)
    assert times(path, UCX_OLD.format(box=box)) == {("tag_bandwidth", 7): (1.204e-6, "windowed")}
    assert times(path, "ucx_perftest -t ucp_am_lat\n" + UCX_OLD.format(box="")) == {
        ("ucp_latency", 8): (1.204e-6, "one_way")
    }
    large = UCX_LATENCY.replace(
        "1.204        6.33       6.34      829187      830801", "16.106     1776.36    1776.36       62088       62088"
    )
    assert times(path, large) == {("ucx_latency", 30000): (16.106e-6, "one_way")}


def test_perftest_is_read(tmp_path):
    path = tmp_path / "ib.txt"
    assert times(path, IB_LATENCY) == {
        ("ib_write_lat", 2): (1.03e-6, "one_way"),
        ("ib_write_lat", 4): (1.04e-6, "one_way"),
    }
    send = IB_LATENCY.replace("RDMA_Write", "Send")
    assert list(times(path, send)) == [("ib_send_lat", 2), ("ib_send_lat", 4)]
    assert times(path, IB_BANDWIDTH)["ib_write_bw", 8] == (8 / (25.43 * 2**20), "windowed")
    bits = IB_BANDWIDTH.replace("MiB/sec", "Gb/sec")
    assert times(path, bits)["ib_write_bw", 8] == (8 / (25.43 * 1.25e8), "windowed")
    both = IB_BANDWIDTH.replace("Write BW", "Write Bidirectional BW").replace("MiB/sec", "MB/sec")
    assert times(path, both)["ib_write_bw", 8] == (16 / (25.43 * 2**20), "windowed")
    # Ranks in front of lines, as srun -l prints them.
    assert times(path, "".join(f"0: {line}\n" for line in IB_BANDWIDTH.splitlines())) == times(path, IB_BANDWIDTH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (UCX_OLD.format(box=""), "line 6: has no test: old versions print 'latency' for every test"),
        ("ucx_perftest -t ucp_get\n" + UCX_BANDWIDTH, "test is 'ucp get', expected puts, active messages or tagged"),
        (UCX_LATENCY[: UCX_LATENCY.index("[thread")], "contains no measurements of ucx_perftest"),
        ("# OSU MPI Latency Test v7.3\n# Size  Latency (us)\n0  2.79\n", "contains only messages of 0 B, expected"),
        (IB_LATENCY.replace("RDMA_Write", "RDMA_Read"), "test is 'RDMA_Read Latency', expected ib_write or ib_send"),
        (IB_BANDWIDTH.replace("MiB/sec", "packets"), "expected BW average in MB/sec, MiB/sec, Gb/sec"),
        (IB_BANDWIDTH.replace("25.43", "0.00"), "average bandwidth is 0, expected a positive number"),
        (IB_BANDWIDTH.replace("25.43", "2x5"), "contains '2x5' in a row of numbers"),
    ],
)
def test_unusable_output_is_one_line(tmp_path, text, message):
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_output(path)
    assert message.removeprefix("line 6: ") in str(caught.value)
    if message.startswith("line"):
        assert str(caught.value).startswith(f"{path}:6: ")


def test_benchmarks_are_compared_with_the_totals_of_their_layers(tmp_path):
    files = {
        "osu.txt": "# OSU MPI Latency Test v7.2\n# Datatype: MPI_CHAR.\n# Size          Avg Latency(us)\n1       1.36\n8    1.40\n",
        "ib.txt": IB_LATENCY,
        "bw.txt": IB_BANDWIDTH,
        "tag.txt": "ucx_perftest -t tag_lat\n" + UCX_LATENCY,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    system = load_system("thunderx2")
    table = fc.compare_breakdown(system, [tmp_path / name for name in files]).set_index("test")
    assert table["measured_ns"].to_dict() == pytest.approx(
        {"osu_latency": 1400, "ib_write_lat": 1040, "ib_write_bw": 300.01, "tag_latency": 1204}, rel=1e-4
    )
    assert table.loc["osu_latency", "deviation"] == pytest.approx(system.total_ns("latency") / 1400 - 1)
    assert table.loc["ib_write_bw", "deviation"] == pytest.approx(
        system.total_ns("injection_llp") / 300.01 - 1, abs=1e-4
    )
    # UCP is between the lower layers and all layers.
    assert table.loc["tag_latency", ["low_ns", "high_ns"]].tolist() == [
        system.total_ns("latency_llp"),
        system.total_ns("latency"),
    ]
    assert table.loc["tag_latency", "deviation"] == 0
    result = CliRunner().invoke(
        app, ["breakdown", "compare", "thunderx2", str(tmp_path / "osu.txt"), str(tmp_path / "ib.txt")]
    )
    assert result.exit_code == 1, result.output
    assert re.search(
        r"osu.txt: osu_latency, 8 B: 1400.0 ns measured, 1387.0 ns latency of the breakdown \(-0.9% of", result.output
    )
    assert "1 of 2 within 5%" in result.output
    assert CliRunner().invoke(app, ["breakdown", "compare", "thunderx2", str(tmp_path / "osu.txt")]).exit_code == 0


def test_large_messages_are_no_breakdown(tmp_path):
    path = tmp_path / "bw.txt"
    path.write_text(IB_BANDWIDTH.replace(" 8  ", " 800"))
    with pytest.raises(
        InputError, match="no time of a message of at most 64 bytes between two processes.*it has ib_write_bw"
    ):
        fc.compare_breakdown("thunderx2", [path])


def test_a_file_of_several_programs_has_the_times_of_each(tmp_path):
    osu = "# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n1       1.36\n8    1.40\n"
    parts = [
        osu,
        IB_LATENCY,
        "$ ucx_perftest node02 -t tag_lat\n" + UCX_LATENCY,
        IB_BANDWIDTH,
        "$ ib_write_lat node02\n" + IB_LATENCY,
    ]
    path = tmp_path / "all.txt"
    for order in (parts[:4], parts[3::-1], parts[1:4]):
        expected = {}
        for text in order:
            expected |= times(path, text)
        assert times(path, "".join(order)) == expected, order


def test_tests_of_several_pairs_are_no_message_between_two_processes(tmp_path):
    (tmp_path / "multi.txt").write_text(
        "# OSU MPI Multi Latency Test v5.9\n# Size          Latency (us)\n8      1.70\n"
    )
    with pytest.raises(fc.InputError, match="it has osu_latency of several pairs"):
        fc.compare_breakdown("thunderx2", [tmp_path / "multi.txt"])
    (tmp_path / "one.txt").write_text("# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n8      1.40\n")
    assert fc.compare_breakdown("thunderx2", [tmp_path / "one.txt"])["measured_ns"].tolist() == pytest.approx([1400])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("830801", "nan", "expected eight numbers"),
        ("      829187      830801", "", "expected eight numbers"),
        ("830801", "8308", "a number is cut"),
    ],
)
def test_a_damaged_last_row_of_ucx_perftest_is_refused(old, new, message):
    path = REPOSITORY / "src" / "fabricast" / "sources" / "examples" / "ucx_perftest.out"
    facts = facts_of_text(path.read_text().replace(old, new), "ucx.out")
    assert [problem for problem in facts.problems if message in str(problem) and "ucx.out:8" in str(problem)]
    assert not list(facts.of(Quantity.MESSAGE_TIME))


def ucx_run(size, time_us):
    """Return a run with the box of the server above the table, as one stream of both sides has it."""
    rate = size / time_us / 1.048576
    return (
        "+--+\n| API:          protocol layer |\n| Test:         tag match latency |\n"
        f"| Message size: {size} |\n+--+\n|  |  |  latency (usec)  |  bandwidth (MB/s)  |  message rate (msg/s) |\n"
        "|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |\n"
        f"Final:  1000 {time_us:.3f} {time_us:.3f} {time_us:.3f} {rate:.2f} {rate:.2f} {1e6 / time_us:.0f} "
        f"{1e6 / time_us:.0f}\n"
    )


def test_each_run_of_ucx_perftest_has_its_own_size(tmp_path):
    runs = [(8, 1.127), (1 << 20, 46.041), (4 << 20, 176.495)]
    found = times(tmp_path / "ucx.out", "".join(ucx_run(*run) for run in runs))
    assert {size: time for (_, size), (time, _) in found.items()} == {size: time * 1e-6 for size, time in runs}


def test_a_size_that_bandwidth_and_time_refute_is_refused(tmp_path):
    text = ucx_run(1 << 20, 46.041).replace(f"Message size: {1 << 20}", "Message size: 8192")
    with pytest.raises(InputError, match=r"messages of 8192 bytes, but bandwidth and time are those of 1048576"):
        times(tmp_path / "ucx.out", text)
