"""Counters, rates and bindings of hosts that an MPI engineer adds to a benchmark."""

import pytest

ETHTOOL = "Settings for ens1f0np0:\n\tSpeed: {}Mb/s\n\tDuplex: Full\n\tLink detected: yes\n"
IPERF = (
    "[  5]   0.00-5.00  sec  1.11 GBytes  {0} Gbits/sec     0   1.54 MBytes\n"
    "[  5]   0.00-10.00  sec  10.9 GBytes  {0} Gbits/sec  0             sender\n"
)
COUNTERS = "NIC statistics:\n     rx_packets: 8123712\n     rx_crc_errors_phy: {}\n     link_down_events_phy: {}\n"
QUERY = (
    'Errors for "node07 mlx5_0"\n'
    "   GUID 0xb8cef60300200006 port 1: [SymbolErrorCounter == {}] [PortXmitWait == 48211]\n"
    'Errors for 0xb8cef60300100002 "MF0;ibsw02:MQM8700/U1"\n'
    "   GUID 0xb8cef60300100002 port ALL: [SymbolErrorCounter == 65535] [PortXmitWait == 1200]\n"
    "   GUID 0xb8cef60300100002 port 5: [SymbolErrorCounter == 12] [PortXmitWait == 99000000]\n"
)
ALLREDUCE = "# OSU MPI Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n1024 {}\n1048576 {}\n"
PERFTEST = (
    "                    RDMA_Write BW Test\n Mtu             : {}[B]\n Link type       : Ethernet\n"
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 65536      5000             89.01              88.90              0.169600\n"
)
BANDWIDTH = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n65536 12255.84\n"


@pytest.mark.parametrize(
    ("port", "rate", "verdict", "words"),
    [
        (10_000, "9.41", "within the expected range", "94 % of the 10 Gbit/s of ens1f0np0"),
        (100_000, "9.41", "possibly slower", "9 % of the 100 Gbit/s of ens1f0np0, as over a link of 10 Gbit/s"),
        (100_000, "31.0", "possibly slower", "as one stream that a processor limits"),
    ],
)
def test_tcp_is_compared_with_the_rate_of_the_interface(first, port, rate, verdict, words):
    found = first(ETHTOOL.format(port), IPERF.format(rate))
    assert str(found.verdict).startswith(verdict) and words in str(found.verdict)


def test_interfaces_of_different_rates_are_no_expectation(first):
    found = first(ETHTOOL.format(100_000), ETHTOOL.format(1_000), IPERF.format("9.41"))
    assert "no fault is stated" in str(found.verdict)


def test_counters_of_a_card_are_a_fault_only_if_they_are_many(first):
    found = first(COUNTERS.format(4821, 3))
    assert "a network card has counted errors since its start: rx_crc_errors_phy 4,821" in found.findings[0].text
    few = first(COUNTERS.format(4, 1))
    assert not few.findings and "rx_crc_errors_phy 4" in few.statements[0]
    assert (
        first(ETHTOOL.format(100_000) + COUNTERS.format(4821, 3)).findings[0].text.startswith("ens1f0np0 has counted")
    )


def test_ibqueryerrors_names_nodes_and_ports_that_wait(first):
    found = first(QUERY.format(65535))
    assert [one.text.split(" has ")[0] for one in found.findings] == ["node07 mlx5_0 port 1"]
    (note,) = [line for line in found.statements if "waited to send" in line]
    assert note.startswith("MF0;ibsw02:MQM8700/U1 port 5 waited to send (PortXmitWait 99,000,000)")
    assert "no fault of a port in ibqueryerrors" in str(first(QUERY.format(12)).statements)


def test_equal_operations_of_mpi_agree(first):
    found = first(ALLREDUCE.format(19.7, 414.0), ALLREDUCE.format(20.1, 420.0))
    assert "2 files of Allreduce agree within 2.0 %" in str(found.verdict)
    other = first(ALLREDUCE.format(19.7, 414.0), ALLREDUCE.format(39.7, 420.0))
    assert other.findings and "agree" not in str(other.verdict)


@pytest.mark.parametrize(("size", "is_named"), [(1024, True), (4096, False)])
def test_small_packets_of_perftest_are_named(first, size, is_named):
    notes = first(PERFTEST.format(size)).statements
    assert any("an interface with an MTU of 4,200 or more permits 4,096" in note for note in notes) == is_named


@pytest.mark.parametrize(
    ("old", "new"), [("MCW rank {} bound to socket {}[core 32[hwt 0]]: [B/.]", "Rank {} bound to package[{}][core:32]")]
)
def test_bindings_of_open_mpi_name_sockets(first, old, new):
    for line in (old, new):
        text = "".join(f"[node0{rank}:12345] {line.format(rank, 1 - rank)}\n" for rank in range(2))
        words = "rank 0 of node00 to socket 1, rank 1 of node01 to socket 0; sockets differ"
        assert any(words in note for note in first(text + BANDWIDTH).statements)


def test_the_queue_of_an_error_is_no_error_of_its_own(first):
    head = "[1732.5] [node02:4770 :0]      ib_mlx5_log.c:179  UCX  ERROR "
    found = first(
        f"{head}Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"
        f"{head}RC QP 0x4a1 wqe[12]: SEND s-e [rqpn 0x6b2 rlid 23] [va 0x7f1b0000 len 8256 lkey 0x1fe7a]\n"
    )
    assert len(found.findings) == 1 and "lost messages" in found.findings[0].text


def osu(title, values, columns="Bandwidth (MB/s)"):
    rows = "".join(f"{size:<20} {value:12.2f}\n" for size, value in values.items())
    return f"# OSU {title} Test v7.3\n# Size          {columns}\n{rows}"


RATES = {2**10: 3600.0, 2**14: 12000.0, 2**18: 23500.0, 2**22: 23900.0}


def test_one_sided_operations_are_compared_with_their_kind_only(first):
    get, put = (osu(f"MPI_{name} Latency", {64: time}, "Latency (us)") for name, time in (("Get", 3.13), ("Put", 2.09)))
    assert not first(get, put).findings
    slow = osu("MPI_Get Latency", {64: 5.0}, "Latency (us)")
    assert "Get of 64 B" in first(get, slow).findings[0].text


def test_a_number_cut_at_the_end_of_a_file_is_no_measurement(first):
    whole = osu("MPI Bandwidth", RATES)
    found = first(whole[:-7], whole, whole)
    assert not any(one.cause == "slow_messages" for one in found.findings) and found.damaged
    assert "the file ends within this row" in found.sources[0]
    assert not first(whole.rstrip("\n"), whole).damaged
    operations = osu("MPI Allreduce Latency", {2**10: 19.7, 2**20: 414.25}, "Avg Latency(us)")
    assert first(operations[:-4], operations).damaged


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (
            "mpirun noticed that process rank 1 with PID 2 on node n02 exited on signal 11 (Segmentation fault).",
            "crashed",
        ),
        ("=   KILLED BY SIGNAL: 9 (Killed)", "was killed"),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the tasks have been OOM Killed.",
            "killed",
        ),
        (
            "slurmstepd: error: *** STEP 42.0 ON n01 CANCELLED AT 2025-03-03T10:11:12 DUE TO TIME LIMIT ***",
            "Slurm ended",
        ),
        ("but OMPI was not built with SLURM's PMI support and therefore cannot", "without Slurm's PMI"),
        ("n05.2 hfi_userinit: assign_context command failed: Device or resource busy", "no context of the Omni-Path"),
    ],
)
def test_a_run_that_ends_after_rows_has_failed(first, end, words):
    for rows in ("", osu("MPI Bandwidth", RATES)):
        assert str(first(f"{rows}{end}\n").verdict).startswith("the run failed") and words in str(
            first(rows + end).verdict
        )


def test_locked_memory_of_open_mpi_is_a_cause(first):
    box = (
        f"{40 * '-'}\nThe OpenFabrics (openib) BTL failed to initialize while trying to\nallocate some locked memory.\n"
        f"\n  Local host:    n04\n  Memlock limit: 65536\n{40 * '-'}\n"
    )
    assert "the network card gets no locked memory (n04)" in str(first(box).verdict)


def test_files_that_end_early_hide_no_agreement(first):
    whole = osu("MPI Bandwidth", RATES)
    short = osu("MPI Bandwidth", {size: rate for size, rate in RATES.items() if size < 2**16})
    found = first(short, whole, whole)
    assert "2 files of osu_bw agree: 23.9 GB/s at 4 MiB" in str(found.verdict)
    assert any("ends at 16 KiB and its rate is not compared" in note for note in found.notes)
    assert "at 16 KiB, their largest common size" in str(first(short, whole).verdict)


def test_files_that_share_only_tiny_sizes_show_no_agreement(first):
    whole = osu("MPI Bandwidth", RATES)
    tiny = osu("MPI Bandwidth", {size: rate for size, rate in RATES.items() if size < 2**12})
    found = first(tiny, whole)
    assert "agree" not in str(found.verdict) and not str(found.verdict).startswith("within")
    assert any("share no size above" in note and "rates are not compared" in note for note in found.notes)


def test_tests_of_several_hosts_in_one_file_name_the_slow_host(first):
    slow = osu("MPI Bandwidth", {size: rate / 2 for size, rate in RATES.items()})
    texts = {"n01": osu("MPI Bandwidth", RATES), "n02": osu("MPI Bandwidth", RATES), "n03": slow}
    text = "".join(f"{host}: {line}\n" for host, one in texts.items() for line in one.splitlines())
    found = first(text)
    assert str(found.verdict).startswith("slower than expected") and "(n03)" in found.findings[0].text
    assert "in the other 2 hosts" in found.findings[0].text


def test_ranks_without_a_place_and_on_one_core_are_named(first):
    bound = "[n02:1] MCW rank {} bound to socket 0[core {}[hwt 0]]: [B/.]\n"
    assert (
        first(bound.format(0, 0) + bound.format(1, 0)).findings[0].text.startswith("ranks 0 and 1 of n02 are bound to")
    )
    assert not first(bound.format(0, 0) + bound.format(1, 1)).findings
    free = "[n02:1] MCW rank 0 is not bound (or bound to all available processors)\n"
    assert any("rank 0 of n02 is not bound" in one for one in first(free).statements)


def test_low_counters_are_listed(first):
    text = "# Port counters: Lid 28 port 1\nPortRcvErrors:...................77\nSymbolErrorCounter:..............0\n"
    assert any("PortRcvErrors 77" in one for one in first(text).statements)


def latencies(*times):
    rows = "".join(f"{2**power} {time}\n" for power, time in enumerate(times))
    return f"# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n{rows}"


NETWORK = latencies(1.6, 1.61, 1.62, 1.63, 1.7, 1.8, 1.9)


def test_a_run_within_a_host_does_not_accuse_the_runs_between_hosts(first):
    found = first(latencies(0.24, 0.24, 0.25, 0.25, 0.26, 0.26, 0.27), NETWORK, NETWORK)
    assert not found.findings and "2 files of osu_latency agree" in str(found.verdict)
    assert any("1 B last 0.24 us, as between processes of one host" in note for note in found.notes)
    slow = latencies(*[3.0 * 1.6] * 7)
    found = first(latencies(0.24, 0.24, 0.25, 0.25, 0.26, 0.26, 0.27), NETWORK, slow)
    assert [one.cause for one in found.findings] == ["late_messages"] and "2.txt: messages" in found.findings[0].text


@pytest.mark.parametrize(("time", "words"), [(21.6, ", as over TCP"), (2700.0, ", longer than over TCP"), (1.6, "")])
def test_late_small_messages_are_named_without_a_file_of_ports(first, time, words):
    found = first(latencies(*[time] * 7))
    assert [one.cause for one in found.findings] == (["messages_over_tcp"] if words else [])
    assert not words or (words in str(found.verdict) and str(found.verdict).startswith("possibly slower"))


def test_the_word_that_all_names_of_slow_files_share_is_named(causes):
    table = "# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n65536 {}\n4194304 {}\n"
    pairs = [(1, 2), (1, 3), (2, 3), (1, 5), (2, 5)]
    files = {f"bw_n0{one}_n0{other}.out": table.format(*[13000 if other == 5 else 24000] * 2) for one, other in pairs}
    text = causes(files)["slow_messages"].text
    assert text.endswith("; the names of all slow files, and of no other, have n05")
    files = {
        name: table.format(*[13000 if name.endswith("n05.out") and "n01" in name else 24000] * 2) for name in files
    }
    assert "the names of all slow files" not in causes(files)["slow_messages"].text


def test_ports_and_lines_of_slow_cables_are_named(first):
    spine = '[{0}]\t"S-b0"[{0}]\t\t# "spine" lid 50 4x{1}\n'
    hosts = "".join(f'[{n}]\t"H-{n}"[1]({n}) \t\t# "cn{n} mlx5_0" lid {n} 4xHDR\n' for n in range(1, 4))
    text = (
        'Switch\t41 "S-a0"\t\t# "leaf" enhanced port 0 lid 1 lmc 0\n'
        + hosts
        + "".join(spine.format(port, "FDR" if port == 22 else "HDR") for port in (21, 22, 23))
        + 'Switch\t41 "S-b0"\t\t# "spine" enhanced port 0 lid 50 lmc 0\n'
        + "".join(f'[{n}]\t"S-a0"[{n}]\t\t# "leaf" lid 1 4x{"FDR" if n == 22 else "HDR"}\n' for n in (21, 22, 23))
    )
    (found,) = first(text).findings
    assert found.text.startswith("leaf port 22 - spine port 22: 54.6 Gbit/s") and found.origin.endswith(":6")
    assert found.device == "leaf port 22 - spine port 22"


def test_a_late_protocol_of_overlapping_messages_comes_after_a_slow_file(first):
    head = "# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n"
    sizes = {1024: 2000, 2048: 2700, 4096: 3400, 8192: 3900, 16384: 11300, 32768: 11800, 65536: 12000, 4194304: 12300}

    def test_of(factor):
        return head + "".join(f"{size} {factor * rate}\n" for size, rate in sizes.items())

    (found,) = first(test_of(1)).findings
    assert found.cause == "late_rendezvous" and "8 KiB last 2.101 us, those of 16 KiB 1.45 us" in found.text
    assert [one.cause for one in first(test_of(1), test_of(1), test_of(0.6)).findings] == [
        "slow_messages",
        "late_rendezvous",
    ]
    even = head + "".join(f"{2**power} {min(2**power / 2, 12000)}\n" for power in range(10, 23))
    assert not first(even).findings


def test_noise_of_one_size_is_no_protocol(first):
    rates = {2**n: 2**n / (0.3 + 2**n / 12000) for n in range(10, 23)}
    rates[4096] /= 3
    head = "# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n"
    assert not first(head + "".join(f"{size} {rate:.2f}\n" for size, rate in rates.items())).findings


@pytest.mark.parametrize("time", [0.25, 1.4])
def test_times_refute_that_messages_pass_over_tcp(first, time):
    startup = "[0] MPI startup(): libfabric provider: tcp;ofi_rxm\n"
    assert not first(startup + latencies(*[time] * 7)).findings
    assert first(startup + latencies(*[25.0] * 7)).findings[0].cause == "messages_over_tcp"


@pytest.mark.parametrize(("factor", "is_odd"), [(0.88, True), (0.97, False)])
def test_one_file_that_differs_from_alike_others_is_possibly_slow(first, factor, is_odd):
    table = "# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n65536 {0}\n4194304 {0}\n"
    rates = [12100, 12200, 12300, 12250, 12300 * factor]
    found = first(*(table.format(rate) for rate in rates))
    assert [one.cause for one in found.findings] == ["slow_messages"] * is_odd
    assert str(found.verdict).startswith("possibly slower" if is_odd else "within the expected range: 5 files")
    assert not is_odd or "4.txt: messages of osu_bw" in found.findings[0].text


def test_latencies_that_differ_are_stated_in_time(first):
    others = [latencies(*[1.5 + 0.01 * number] * 7) for number in range(4)]
    found = first(*others, latencies(*[1.88] * 7))
    assert [one.cause for one in found.findings] == ["late_messages"] and "last 1.88 us" in found.findings[0].text
    assert "agree: 1.5 us to 1.53 us at 1 B" in str(first(*others).verdict)
    # Two files have no spread of others.
    assert not first(latencies(*[1.5] * 7), latencies(*[1.88] * 7)).findings
