"""Times of MPI that scatter, or are of different numbers of processes, are no fault."""

import pytest

import fabricast as fc

SIZES = [2**power for power in range(23)]
LATENCY = "# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n"
OPERATION = "# OSU MPI Allreduce Latency Test v7.2\n# Size       Avg Latency(us)\n"
BANDWIDTH = "# OSU MPI Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n"
PORT = "CA 'mlx5_0'\n\tCA type: MT4123\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 100\n\t\tLink layer: InfiniBand\n"


def times(factors=None, scale=1.0):
    """Return one-way times in us: a start of 1.25 us and 12.3 GB/s, with some sizes changed."""
    return {size: scale * (1.25 + size / 12300) * (factors or {}).get(size, 1.0) for size in SIZES}


def table(head, of_size, command=""):
    return command + head + "".join(f"{size} {time:.2f}\n" for size, time in of_size.items())


@pytest.mark.parametrize("size", [256, 1024, 65536])
@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_a_single_late_size_is_scatter(first, size, factor):
    one = table(LATENCY, times({size: factor}))
    assert not first(one).findings
    found = first(table(LATENCY, times()), one, table(LATENCY, times()))
    assert not found.findings and "agree" in str(found.verdict)


def test_neighbouring_late_sizes_are_no_scatter(first):
    late = {16384: 2.2, 32768: 2.2, 65536: 2.2}
    assert first(table(LATENCY, times(late))).findings[0].cause == "late_rendezvous"
    found = first(
        table(LATENCY, times()), table(LATENCY, times({2048: 2.0, 4096: 1.7, 8192: 1.4})), table(LATENCY, times())
    )
    assert found.findings[0].cause == "late_messages" and "protocols" in found.findings[0].remedy


def test_numbers_of_processes_of_commands_separate_tables(first):
    command = "+ srun -N {} --ntasks-per-node=128 osu_allreduce\n"
    series = [table(OPERATION, times(scale=nodes**0.6), command.format(nodes)) for nodes in (2, 4, 8, 16, 32)]
    found = first(*series)
    assert not found.findings and "256 to 4096 processes" in str(found.verdict)
    assert first(series[0], series[0], table(OPERATION, times(scale=3.0), command.format(2))).findings


@pytest.mark.parametrize(("others", "words"), [(2, "possibly slower than expected"), (4, "slower than expected")])
def test_a_late_operation_without_a_number_of_processes_needs_alike_others(first, others, words):
    alike = [table(OPERATION, times()) for _ in range(others)]
    assert str(first(*alike, table(OPERATION, times(scale=2.0))).verdict).startswith(words)


def test_a_slow_library_over_a_fast_card_is_the_cause(first):
    rows = "".join(f" {2**power}    5000    {12300:.2f}    {12300:.2f}    0.01\n" for power in range(16, 24))
    verbs = f"                    RDMA_Write BW Test\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n{rows}"
    slow = BANDWIDTH + "".join(f"{size} {min(size / 4, 6300):.2f}\n" for size in SIZES)
    found = first(verbs.replace("MB/sec", "MB/sec"), slow, PORT)
    assert found.findings[0].cause == "slow_library" and str(found.verdict).startswith("possibly slower")
    assert first(slow, PORT).findings[0].cause == "below_port_rate"


def test_late_messages_of_verbs_are_not_over_tcp(first):
    head = (
        "                    Send Latency Test\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    "
        "t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n"
    )
    row = " 2       1000          11.5           14.1         11.98         11.99             0.05            12.2            14.1\n"
    found = first(head + row)
    assert [one.cause for one in found.findings] == ["late_small_messages"]
    assert "TCP" not in found.findings[0].text


def test_a_single_rate_is_named_as_that_of_a_port(first):
    fast = BANDWIDTH + "".join(f"{size} {min(size / 2, 12300):.2f}\n" for size in SIZES)
    assert "12.3 GB/s are 98 % of a port of 100 Gbit/s" in str(first(fast).verdict)
    notes = " ".join(first(fast, PORT.replace("Rate: 100", "Rate: 25")).notes)
    assert "more than the active ports (1 x 25 Gbit/s)" in notes


def test_a_far_last_size_is_possibly_slower_and_many_late_sizes_are(first):
    last = table(LATENCY, times({SIZES[-1]: 8.0}))
    found = first(table(LATENCY, times()), last, table(LATENCY, times()))
    assert str(found.verdict).startswith("possibly slower") and "smaller sizes are alike" in found.findings[0].text
    often = table(LATENCY, times(dict.fromkeys(SIZES[1:20:3], 3.0)))
    assert str(first(table(LATENCY, times()), often, table(LATENCY, times())).verdict).startswith("slower than")


def test_nixlbench_of_other_backends_and_directions_is_not_compared(first):
    text = (
        "Backend (--backend=[UCX,GDS,POSIX]): {}\nOp type (--op_type=[READ,WRITE])      : {}\n"
        "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)\n67108864            1              {}      1471.8\n"
    )
    assert not first(text.format("UCX", "WRITE", 45.6), text.format("UCX", "READ", 20.1)).findings
    assert first(text.format("UCX", "WRITE", 45.6), text.format("UCX", "WRITE", 20.1)).findings
    assert not first(text.format("UCX", "WRITE", 45.6), text.format("GDS", "WRITE", 6.1)).findings


OSU_BARRIER = "# OSU MPI Barrier Latency Test v7.3\n# Avg Latency(us)\n             {}\n"
IMB_BARRIER = """#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
# Benchmarking Barrier
# #processes = 64
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1000        2.11        400.12        {}
"""


@pytest.mark.parametrize("text", [OSU_BARRIER, IMB_BARRIER])
def test_barriers_are_compared_though_they_have_no_size(tmp_path, text):
    for name, time in (("a.txt", "12.51"), ("b.txt", "112.51")):
        (tmp_path / name).write_text(text.format(time))
    (finding,) = fc.diagnose(tmp_path / "a.txt", tmp_path / "b.txt").findings
    assert "b.txt: repetitions of Barrier last 112.5 us, in the other file 12.51 us" in finding.text
    assert not fc.diagnose(tmp_path / "b.txt").findings
