"""Hosts that differ from the others, sizes that are slower than larger ones, and doubtful times of clusters."""

import pytest

import fabricast as fc
from fabricast.core.warnings import WarningCode
from tests.nccl_tests_logs import nccl_tests as nccl_tests_log
from tests.unit.diagnosis.pasted import peer_test
from tests.unit.pcie.topology.test_listings import groups, matrix

#: Times in us of 32 H100 in four nodes, as forecast.
FORECAST = [(2**20, 100.0), (2**22, 217.0), (2**24, 334.0), (2**26, 663.0), (2**28, 1981.0), (2**30, 6056.0)]


def host_log(hosts=4, *, version="2.21.5", network="IB", cards=8, gpudirect=True, other=None):
    """Return a log of NCCL whose third host states other values."""
    lines = []
    for host in range(hosts):
        usual = {"version": version, "network": network, "cards": cards, "gpudirect": gpudirect}
        one = {**usual, **(other or {} if host == 2 else {})}
        start = f"node{host:02}:{host + 1}:{host + 9} [0] NCCL INFO "
        listed = " ".join(f"[{card}]mlx5_{card}:1/IB" for card in range(one["cards"]))
        via = f"NET/{one['network']}/0{'/GDRDMA' if one['gpudirect'] else ''}"
        lines += [
            f"{start}NCCL version {one['version']}+cuda12.4",
            f"{start}NET/IB : Using {listed} [RO]; OOB eth0:10.1.0.1<0>",
            f"{start}Using network {one['network']}",
            f"{start}comm 0x1 rank {host * 8} nranks {hosts * 8} cudaDev 0 busId 18000 commId 0x7 - Init START",
            f"{start}comm 0x1 rank {host * 8} nRanks {hosts * 8} nNodes {hosts} localRanks 8 localRank 0 MNNVL 0",
            f"{start}Channel 00/0 : {host * 8}[0] -> {(host + 1) % hosts * 8}[0] [send] via {via}",
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"version": "2.19.3"}, "node02 runs NCCL 2.19.3; each of 3 other hosts runs NCCL 2.21.5"),
        ({"network": "Socket"}, "node02 uses the network Socket; each of 3 other hosts uses the network IB"),
        (
            {"cards": 4},
            "node02 lists 4 network cards (mlx5_4, mlx5_5, mlx5_6, mlx5_7 missing); each of 3 other hosts lists 8 network cards",
        ),
        ({"gpudirect": False}, "node02 sends without GPUDirect RDMA; each of 3 other hosts sends with GPUDirect RDMA"),
    ],
)
def test_a_host_that_differs_is_named_with_its_line(tmp_path, other, text):
    (tmp_path / "nccl.log").write_text(host_log(other=other))
    finding = fc.diagnose(tmp_path / "nccl.log").findings[0]
    assert finding.text == text
    assert finding.cause == f"host_differs_{next(iter(other))}"
    line = int(str(finding.origin).rpartition(":")[2])
    assert "node02" in host_log(other=other).splitlines()[line - 1]


def test_two_hosts_that_differ_are_both_named(tmp_path):
    lines = host_log(3, other={"cards": 4}).splitlines()
    (tmp_path / "nccl.log").write_text("\n".join(line for line in lines if not line.startswith("node01")) + "\n")
    (text,) = [one.text for one in fc.diagnose(tmp_path / "nccl.log").findings if one.cause == "host_differs_cards"]
    assert text == "node02 lists 4 network cards (mlx5_4, mlx5_5, mlx5_6, mlx5_7 missing); node00 lists 8 network cards"


def test_worse_hosts_are_named_whatever_most_hosts_state(tmp_path):
    text = host_log(3, network="Socket", cards=4, other={"network": "IB", "cards": 8})
    (tmp_path / "nccl.log").write_text(text)
    found = {one.cause: one.text for one in fc.diagnose(tmp_path / "nccl.log").findings}
    assert found["host_differs_network"].startswith(
        "node00 uses the network Socket, node01 uses the network Socket; node02"
    )
    assert "host_differs_cards" not in found


def test_a_log_for_each_host_is_compared_with_the_others(tmp_path):
    lines = host_log(other={"version": "2.19.3"}).splitlines()
    files = []
    for host in ("node00", "node01", "node02", "node03"):
        files.append(tmp_path / f"{host}.log")
        files[-1].write_text("\n".join(line for line in lines if line.startswith(host)) + "\n")
    (finding,) = [one for one in fc.diagnose(files).findings if one.cause == "host_differs_version"]
    assert finding.origin == f"{files[2]}:1"


def test_equal_hosts_are_no_finding(tmp_path):
    (tmp_path / "nccl.log").write_text(host_log())
    (tmp_path / "run.log").write_text("")
    log = nccl_tests_log(tmp_path / "run.log", FORECAST)
    assert not fc.diagnose([tmp_path / "nccl.log", log]).findings


def test_sizes_slower_than_larger_ones_are_named(tmp_path):
    rows = [(2**18, 90.0), *((size, time * (2.5 if size == 2**24 else 1)) for size, time in FORECAST)]
    diagnosis = fc.diagnose(nccl_tests_log(tmp_path / "run.log", rows))
    assert not any(one.cause == "slower_than_larger_sizes" for one in diagnosis.findings)  # 835 us, 64 MiB 663 us
    rows = [(size, time * (2 if size == 2**24 else 1)) for size, time in rows]
    (finding,) = fc.diagnose(nccl_tests_log(tmp_path / "run.log", rows)).findings
    assert finding.cause == "slower_than_larger_sizes"
    assert "16 MiB lasts longer than larger sizes: 16 MiB 1,670 us, 64 MiB 663 us" in finding.text


def test_the_first_row_and_small_sizes_are_not_compared_with_larger_ones(tmp_path):
    rows = [(2**12, 9000.0), (2**13, 5000.0), *FORECAST]
    diagnosis = fc.diagnose(nccl_tests_log(tmp_path / "run.log", rows))
    assert not any(one.cause == "slower_than_larger_sizes" for one in diagnosis.findings)


def test_large_sizes_far_from_the_forecast_are_doubtful(tmp_path):
    log = nccl_tests_log(tmp_path / "run.log", [(size, time * 1.45) for size, time in FORECAST[2:5]])
    diagnosis = fc.diagnose(log)
    assert str(diagnosis.verdict).startswith("possibly slower than expected")
    assert "large sizes last 1.46 times as long as the forecast" in str(diagnosis.verdict)
    assert not diagnosis.has_causes
    assert any(
        text.startswith("what decides: --nic 8x400 if these are your cards, or the output of 'ibstat' of a node; ")
        for text in diagnosis.notes
    )


def test_a_largest_size_far_from_the_forecast_is_a_note(tmp_path):
    # The range of larger sizes is narrower.
    smaller = [(size, time) for size, time in FORECAST if size < 2**29]
    largest = max(size for size, _ in smaller)
    for factor, expected in ((1.3, True), (1.0, False)):
        rows = [(size, time * (factor if size == largest else 1)) for size, time in smaller]
        found = fc.diagnose(nccl_tests_log(tmp_path / "run.log", rows))
        assert str(found.verdict).startswith("within the expected range")
        assert any("of the forecast rate: runs of fewer nodes" in note for note in found.notes) == expected


def test_a_cluster_file_states_the_cards(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n")
    log = nccl_tests_log(tmp_path / "run.log", [(size, time * 3) for size, time in FORECAST])
    found = fc.diagnose([tmp_path / "cluster.yaml", log])
    assert str(found.verdict).startswith("slower than expected") and found.has_causes
    assert "assumed" not in str(found.verdict)
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 4x100\n")
    log = nccl_tests_log(tmp_path / "run.log", [(size, time * 8) for size, time in FORECAST[3:]])
    slower_cards = fc.diagnose([tmp_path / "cluster.yaml", log])
    assert str(slower_cards.verdict).startswith("within the expected range")


def test_a_cluster_file_of_another_machine_is_named(tmp_path):
    log = nccl_tests_log(tmp_path / "run.log", FORECAST)
    for cluster, message in (
        (
            "nodes: 4\nnic: 1x100",
            "times as fast as the shortest forecast: the cluster of the file has other cards or nodes",
        ),
        ("nodes: 4\nnic: 8x400\ngpus: 4", "has 32 ranks, expected 16 of 4 nodes"),
    ):
        (tmp_path / "cluster.yaml").write_text(f"cluster: mine\nnode: hgx_h100\n{cluster}\n")
        found = fc.diagnose([tmp_path / "cluster.yaml", log])
        assert str(found.verdict).startswith("nothing could be judged: the cluster of a file does not fit the table of")
        assert message in str(found.verdict)


#: Four GeForce cards, the third with a quarter of the rate.
STAGED = [[6.1 if 2 in (one, other) else 21.5 if one != other else 0.0 for other in range(4)] for one in range(4)]


@pytest.fixture
def workstation(tmp_path):
    pairs = [(one, other) for one in range(4) for other in range(4) if one != other]
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PHB"), (2, "PHB")), numa=[0] * 4))
    (tmp_path / "p2p.txt").write_text(
        peer_test(STAGED, disabled=pairs).replace("P2P=Enabled Bandwidth (P2P Writes)", "P2P=Disabled Bandwidth")
    )
    return [tmp_path / "topo.txt", tmp_path / "p2p.txt"]


def test_a_gpu_with_slow_staged_copies_bounds_the_ring(workstation):
    slow = fc.collective(workstation, gpu="RTX 4090", sizes=["256 MiB"])
    bus = float(slow.table["bus_gb_per_s"].iloc[0])
    assert 3 < bus < 6.1
    assert "2" in slow.bottleneck


def test_settings_that_the_driver_overrules_are_no_cause(workstation, tmp_path):
    disabled = {"NCCL_P2P_DISABLE": "1"}
    slow = fc.collective(workstation, gpu="RTX 4090", sizes=["64 MiB"], env=disabled)
    # Direct copies would use the slow link, too: their gain is unknown.
    (cause,) = [one for one in fc.diagnose_collective(slow) if one.cause == "host_memory_transport"]
    assert cause.rank == 1 and "times as fast" not in cause.text
    found = fc.collective(workstation[0], gpu="RTX 4090", sizes=["64 MiB"], env=disabled)
    (cause,) = [one for one in fc.diagnose_collective(found) if one.cause == "host_memory_transport"]
    assert "NCCL_P2P_DISABLE" not in cause.text + cause.remedy
    lines = [
        f"n:{rank}:9 [0] NCCL INFO Channel 00 : {rank}[0] -> {(rank + 1) % 4}[0] via SHM/direct" for rank in range(4)
    ]
    comms = [
        f"n:{rank}:9 [0] NCCL INFO comm 0x{rank} rank {rank} nranks 4 cudaDev 0 busId {rank}000" for rank in range(4)
    ]
    (tmp_path / "nccl.log").write_text("\n".join(["NCCL version 2.20.5+cuda12.4", *comms, *lines]) + "\n")
    causes = {one.cause for one in fc.diagnose([*workstation, tmp_path / "nccl.log"], gpu="RTX 4090").findings}
    assert causes == {WarningCode.SLOW_ENDPOINT}


def test_a_part_of_a_file_that_cannot_be_used_is_called_a_part(workstation):
    text = workstation[1].read_text()
    workstation[1].write_text(text + text[text.index("Unidirectional") :].rpartition("\n")[0].rpartition(" ")[0])
    found = fc.diagnose(workstation, gpu="RTX 4090")
    assert any("a part cannot be used" in one for one in found.sources)


def test_the_row_of_a_narrow_link_in_a_table_of_nvidia_smi_is_named(workstation, tmp_path):
    head = "index, pcie.link.width.current, name, pci.bus_id, pcie.link.width.max, pcie.link.gen.max, power.limit [W]"
    rows = [
        f"{gpu}, {4 if gpu == 1 else 16}, NVIDIA GeForce RTX 4090, 00000000:{gpu + 1:02X}:00.0, 16, 4, 450.00 W"
        for gpu in range(4)
    ]
    (tmp_path / "gpus.csv").write_text("\n".join([head, *rows]) + "\n")
    found = fc.diagnose([workstation[0], tmp_path / "gpus.csv"])
    assert found.findings[0].cause == WarningCode.DOWNGRADED_LINK
    assert found.findings[0].origin == f"{tmp_path / 'gpus.csv'}:3"
    (tmp_path / "gpus.csv").write_text(head + "\n")
    for text, message in (
        (head, "has no row of a GPU below the names of the columns"),
        (head.replace("index, ", "").replace("pci.bus_id, ", "") + "\n", "has neither the column index nor pci.bus_id"),
        ("\n".join([head, *rows, rows[1].replace(" 4,", " 16,", 1)]), "has another row of GPU 1 that differs"),
    ):
        (tmp_path / "gpus.csv").write_text(text + "\n")
        with pytest.raises(fc.InputError, match=message):
            fc.load_machine([workstation[0], tmp_path / "gpus.csv"])


def test_a_narrow_link_that_measured_copies_refute_is_a_contradiction_of_files(workstation, tmp_path):
    """GPU 2 is slow in these copies, GPU 1 is not."""
    head = "index, name, pci.bus_id, pcie.link.gen.max, pcie.link.width.max, pcie.link.width.current"
    for slow, causes in ((1, {WarningCode.SLOW_ENDPOINT, WarningCode.FILES_CONTRADICT}), (2, {"downgraded_link"})):
        rows = [
            f"{gpu}, NVIDIA GeForce RTX 4090, 00000000:{gpu + 1:02X}:00.0, 4, 16, {4 if gpu == slow else 16}"
            for gpu in range(4)
        ]
        (tmp_path / "gpus.csv").write_text("\n".join([head, *rows]) + "\n")
        found = fc.diagnose([*workstation, tmp_path / "gpus.csv"])
        assert {one.cause for one in found.findings} == causes
        assert str(found.verdict).startswith("slower than expected")


def test_a_slow_pair_is_named_and_avoided(workstation):
    rates = [
        [6.1 if {one, other} == {1, 2} else 21.5 if one != other else 0.0 for other in range(4)] for one in range(4)
    ]
    pairs = [(one, other) for one in range(4) for other in range(4) if one != other]
    text = peer_test(rates, disabled=pairs).replace("P2P=Enabled Bandwidth (P2P Writes)", "P2P=Disabled Bandwidth")
    workstation[1].write_text(text)
    (finding,) = fc.diagnose(workstation, gpu="RTX 4090").findings
    assert finding.text.startswith("copies 1>2, 2>1 through host memory are slow, 1>2 6.1 GB/s")
    ring = fc.collective(workstation, gpu="RTX 4090", sizes=["64 MiB"])
    assert ring.gain_of_order > 2
    assert ring.orders.best == (0, 1, 3, 2)


@pytest.mark.parametrize("plugin", ["AWS Libfabric", "NCCL RDMA Plugin v10", "Libfabric", "IBext_v8"])
def test_names_of_plugins_with_blanks_keep_their_gpudirect(tmp_path, plugin):
    log = host_log(network=plugin).replace(f"NET/{plugin}/0", f"NET/{plugin}/0(3)")
    (tmp_path / "nccl.log").write_text(log)
    found = fc.diagnose([tmp_path / "nccl.log"])
    assert not found.findings
    assert f"NET/{plugin}/GDRDMA" in str(found.statements)
    (tmp_path / "nccl.log").write_text(log.replace("/GDRDMA", ""))
    assert [one.cause for one in fc.diagnose([tmp_path / "nccl.log"]).findings] == ["no_gpudirect"]


def forecast_rows(operation, nic):
    """Return the times of 32 H100 in four nodes, as forecast now."""
    sizes = [2.0**26, 2.0**28, 2.0**30]
    found = fc.cluster_collective("hgx_h100", operation, sizes=sizes, nodes=4, nic=nic, network="InfiniBand")
    return list(zip(found.table["size_bytes"].astype(int), found.table["time_us"], strict=True))


def test_a_setting_that_leaves_few_cards_is_named_and_in_the_forecast(tmp_path):
    log = nccl_tests_log(tmp_path / "run.log", forecast_rows("all_reduce", "4x400"))
    setting = "node00:1:9 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1,mlx5_2,mlx5_3\n"
    (tmp_path / "run.log").write_text(host_log(cards=4) + setting + log.read_text())
    found = fc.diagnose(log)
    (finding,) = found.findings
    assert finding.text == "NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3 leaves 4 network cards for the 8 GPUs of a node"
    assert str(found.verdict).startswith("within the expected range") and "4 x 400 Gbit/s" in str(found.verdict)
    # Without the setting, the cards may be all that the node has.
    (tmp_path / "run.log").write_text(host_log(cards=4) + log.read_text().partition(setting)[2])
    assert not fc.diagnose(log).findings


def test_a_setting_that_excludes_gpudirect_is_the_remedy(tmp_path):
    setting = "node00:1:9 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC\n"
    (tmp_path / "nccl.log").write_text(host_log(gpudirect=False) + setting)
    (finding,) = fc.diagnose([tmp_path / "nccl.log"]).findings
    assert (finding.cause, finding.remedy.split(",")[0]) == ("no_gpudirect", "unset NCCL_NET_GDR_LEVEL")


def test_alltoall_is_compared_and_names_the_setting_that_explains_it(tmp_path):
    rows = forecast_rows("alltoall", "8x400")
    run = nccl_tests_log(tmp_path / "run.log", [(size, 1.8 * time) for size, time in rows], operation="alltoall")
    found = fc.diagnose(run)
    assert str(found.verdict).startswith("possibly slower than expected: alltoall of ")
    assert not found.findings
    setting = "node00:1:9 [0] NCCL INFO NCCL_PXN_DISABLE set by environment to 1\n"
    run.write_text(host_log() + setting + run.read_text())
    (finding,) = fc.diagnose(run).findings
    assert (finding.cause, finding.remedy) == ("pxn_disabled", "unset NCCL_PXN_DISABLE")


def test_a_described_cluster_beyond_its_range_is_slower(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n")
    log = nccl_tests_log(tmp_path / "run.log", [(size, time * 1.8) for size, time in FORECAST[3:]])
    found = fc.diagnose([tmp_path / "cluster.yaml", log])
    assert str(found.verdict).startswith("slower than expected") and "GB/s of bus bandwidth" in str(found.verdict)


def test_a_time_just_beyond_its_range_is_possibly_slower(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n")
    sizes = [2.0**28, 2.0**30, 2.0**33]
    table = fc.cluster_collective("hgx_h100", "all_gather", sizes=sizes, nodes=4, nic="8x400").table
    latest = table["latest_us"].to_numpy()
    for factor, words in ((1.01, "possibly slower than expected"), (1.3, "slower than expected")):
        times = [table["time_us"][0], latest[1] * factor, table["time_us"][2]]
        rows = [(int(size), time) for size, time in zip(sizes, times, strict=True)]
        log = nccl_tests_log(tmp_path / "run.log", rows, operation="all_gather")
        assert str(fc.diagnose([tmp_path / "cluster.yaml", log]).verdict).startswith(words)


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1.0, ""), (2.0, "about half the forecast rate"), (7.4, "the rate of one of the 8 cards"), (120.0, "as over TCP")],
)
def test_large_sizes_name_what_usually_makes_them_so_slow(tmp_path, factor, words):
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n")
    log = nccl_tests_log(tmp_path / "run.log", [(size, time * factor) for size, time in FORECAST[3:]])
    notes = " ".join(fc.diagnose([tmp_path / "cluster.yaml", log]).notes)
    assert words in notes and bool(words) == ("large sizes" in notes)


def test_few_channels_of_a_slow_run_are_named(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n")
    log = nccl_tests_log(tmp_path / "run.log", [(size, time * 2.4) for size, time in FORECAST[3:]])
    line = "node00:1:9 [0] NCCL INFO {} coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels\n"
    table = log.read_text()
    for channels in (4, 16):
        log.write_text(host_log() + line.format(channels) + table)
        notes = " ".join(fc.diagnose([tmp_path / "cluster.yaml", log]).notes)
        assert ("the log states 4 channels" in notes) == (channels == 4)
