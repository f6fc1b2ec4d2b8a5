"""First answers that an operator of a cluster tried: output of several hosts, and runs in which a rank stopped."""

import math
import re

import pytest

import fabricast as fc
from fabricast.core.findings import Finding
from fabricast.sources.host_lines import lines_by_host

PORT = (
    "CA '{0}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {1}\n\t\tPhysical state: {2}\n\t\tRate: {3}\n"
    "\t\tLink layer: {4}\n"
)
ETHERNET = PORT.format("mlx5_9", "Down", "Disabled", 40, "Ethernet")
RULE = 16 * "-"
WATCHDOG = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=54, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n"
)
RANK = "trx:1:1 [{0}] NCCL INFO comm 0x1 rank {0} nranks 4 cudaDev {0} busId {0}1000 commId 0x2 - Init START\n"
OFF_THE_BUS = "[ 5521.1] NVRM: Xid (PCI:0000:41:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"


def ports(*rates):
    return "".join(
        PORT.format(f"mlx5_{number}", "Active", "LinkUp", rate, "InfiniBand") for number, rate in enumerate(rates)
    )


def titled(**hosts):
    return "".join(f"{RULE}\n{name}\n{RULE}\n{text}" for name, text in hosts.items())


def by_task(*texts):
    return "".join(f"{task}: {line}\n" for task, text in enumerate(texts) for line in text.splitlines())


def test_titles_of_dshbak_and_clush_name_several_hosts():
    text = f"$ pdsh\n{RULE}\nn[01,03-04]\n{RULE}\na\nb\n{RULE}\nn02 (1)\n{RULE}\nc\n"
    assert lines_by_host(text) == {
        "": [(1, "$ pdsh")],
        **{f"n{number}": [(5, "a"), (6, "b")] for number in ("01", "03", "04")},
        "n02": [(10, "c"), (11, "")],
    }
    assert not lines_by_host(f"{RULE}\nSummary\n{RULE}\na\n") and not lines_by_host(f"{RULE}\nn[03-01]\n{RULE}\na\n")
    assert set(lines_by_host(f"{RULE}\nn[001-900]\n{RULE}\na\n")) == {"", "n[001-900]"}


def test_labels_of_srun_are_tasks_if_all_lines_have_them():
    assert lines_by_host("0: a\n0: b\n0: c\n1: a\n1: \n1: c\n")["task 1"] == [(4, "a"), (5, ""), (6, "c")]
    assert not lines_by_host("0: a\n0: b\n0: c\n") and not lines_by_host("0: a\n1: b\n2: c\n")


@pytest.mark.parametrize(
    "text",
    [
        titled(hgx01=ports(400, 400), hgx02=ports(400, 200), hgx03=ports(400, 400)),
        titled(**{"hgx[01,03]": ports(400, 400), "hgx02": ports(400, 200)}),
        by_task(ports(400, 400), ports(400, 200), ports(400, 400)),
    ],
)
def test_a_slow_port_is_found_in_every_form_of_output_of_several_hosts(first, text):
    (found,) = first(text).findings
    assert re.match(r"(hgx02|task 1) mlx5_1 port 1 runs at 200 Gbit/s, most ports at 400", found.text)
    assert found.host in ("hgx02", "task 1")


def test_disabled_ports_of_ethernet_are_no_fault_of_nodes_with_infiniband(first):
    healthy = ports(400, 400) + ETHERNET
    assert not first(titled(hgx01=healthy, hgx02=healthy)).findings
    broken = healthy.replace("LinkUp", "Polling", 1).replace("Active", "Down", 1)
    assert [one.device for one in first(titled(hgx01=healthy, hgx02=broken)).findings] == ["mlx5_0 port 1"]
    # Where all ports are Ethernet, one that other hosts use is a fault, and one that all hosts disable is a setting.
    roce = healthy.replace("InfiniBand", "Ethernet")
    assert not first(titled(hgx01=roce, hgx02=roce)).findings
    used = roce.replace("Down", "Active").replace("Disabled", "LinkUp")
    assert [one.host for one in first(titled(hgx01=used, hgx02=roce, hgx03=used)).findings] == ["hgx02"]


@pytest.mark.parametrize("host", ["", "n1: "])
def test_inactive_nvlinks_of_all_boards_are_a_fault(first, host):
    gpu = "GPU {}: NVIDIA {} (UUID: GPU-{})\n\t Link 0: <inactive>\n\t Link 1: <inactive>\n"
    gpus = "".join(gpu.format(number, "H100 80GB HBM3", number) for number in range(2))
    text = "".join(f"{host}{line}\n" for line in gpus.splitlines())
    assert "GPUs 0, 1: all 2 NVLinks inactive" in first(text).findings[0].text
    assert not first(text.replace("H100 80GB HBM3", "RTX A6000")).findings


def test_the_rank_that_does_not_report_is_named_after_the_device_that_it_lost(first):
    log = "".join(map(RANK.format, range(4))) + "".join(WATCHDOG.format(rank) for rank in (0, 1, 3))
    found = first(log)
    assert [one.cause for one in found.findings] == ["silent_ranks"]
    assert "3 of 4 ranks report that operation 54 did not end; rank 2 does not" in str(found.verdict)
    found = first(log, OFF_THE_BUS)
    assert [one.cause for one in found.findings] == ["gpu_errors", "silent_ranks"]
    assert str(found.verdict).startswith("the run failed: 0000:41:00.0: has fallen off the bus")
    assert str(first(OFF_THE_BUS).verdict).startswith("a fault is stated")
    # An error of a rank is the cause of what the others report.
    found = first(log + "trx:1:2 [2] misc/shmutils.cc:9 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes\n")
    assert [one.cause for one in found.findings] == ["nccl_error", "silent_ranks"]


def test_ranks_that_all_wait_in_one_operation_called_it(first):
    log = "".join(map(RANK.format, range(4))) + "".join(map(WATCHDOG.format, range(4)))
    (found,) = first(log).findings
    assert found.cause == "all_ranks_wait" and "NCCL_P2P_DISABLE=1" in found.remedy
    # Without the number of ranks, the last one may be silent; another file may state it.
    reports = "".join(map(WATCHDOG.format, range(4)))
    (found,) = first(reports).findings
    assert found.cause == "reporting_ranks_wait" and "NCCL_P2P_DISABLE=1" in found.remedy
    (found,) = first(reports, "".join(map(RANK.format, range(4)))).findings
    assert found.cause == "all_ranks_wait" and found.text.endswith(": its data do not arrive")
    (found,) = first(reports.splitlines()[0] + "\n").findings
    assert found.cause == "nccl_error"


def test_a_process_that_the_kernel_ended_comes_before_the_rank_that_does_not_report(first):
    reports = "".join(WATCHDOG.format(rank) for rank in (0, 1, 3))
    killed = (
        "[81231.123456] Linux version 6\n[81231.123456] Out of memory: Killed process 22441 (python) total-vm:1kB\n"
    )
    assert [one.cause for one in first(reports, killed).findings] == ["host_error", "silent_ranks"]


def test_a_cable_with_bit_errors_is_a_fault_of_a_working_port(first):
    text = (
        "State                              : Active\nPhysical state                     : LinkUp\n"
        "Speed                              : IB-NDR\nEnabled Link Speed                 : 0x000000fe (NDR,HDR)\n"
        "Recommendation                     : {}\nEffective Physical BER             : 2E-09\n"
    )
    found = first(text.format("Bad signal integrity"))
    assert 'works with a fault: "Bad signal integrity", bit error rate 2E-09' in found.findings[0].text
    assert not first(text.format("No issue was observed")).findings


GIDS = (
    "mlx5_0  1  0  fe80:0000:0000:0000:a288:c2ff:fe03:0100                v2  eth0\n"
    "mlx5_0  1  3  0000:0000:0000:0000:0000:ffff:0a0c:00{0} 10.12.0.{0}    v2  eth0\n"
)
SETTING = "hgx01:1:1 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to {}.\n"
LOST = (
    "hgx01:1:1 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 10.20.0.11<4> with status=12 "
    "opcode=0 len=0 vendor err 129 (Send)\n"
)


def test_an_index_without_a_usable_address_explains_lost_messages(first):
    for index, words in ((0, "that is link-local"), (5, "whose indexes are 0, 3")):
        found = first(SETTING.format(index) + LOST, GIDS.format("15"))
        assert [one.cause for one in found.findings] == ["unusable_address", "nccl_error"]
        assert words in found.findings[0].text and found.findings[0].remedy == "NCCL_IB_GID_INDEX=3"
    assert [one.cause for one in first(SETTING.format(3) + LOST, GIDS.format("15")).findings] == ["nccl_error"]


def test_a_port_without_an_address_that_the_other_hosts_have_is_named(first):
    rows = GIDS.format("15").splitlines(keepends=True)
    (found,) = first(titled(n01="".join(rows), n02=rows[0], n03="".join(rows))).findings
    assert found.host == "n02" and "mlx5_0 port 1 has no RoCE v2 address" in found.text
    assert not first(titled(n01=rows[0], n02=rows[0])).findings


def test_a_topology_whose_cards_are_far_from_gpus_of_the_same_node_is_read(tmp_path):
    row = "GPU{0}\t{1}\t0-55\t0\tN/A\n"
    text = (
        "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        + row.format(0, " X \tNV18\tPIX\tSYS")
        + row.format(1, "NV18\t X \tSYS\tPIX")
        + "NIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n"
        + "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
    )
    (tmp_path / "topo.txt").write_text(text)
    assert fc.load_machine(tmp_path / "topo.txt", gpu="H100").tree.accelerator_names == ("0", "1")


@pytest.mark.parametrize(
    ("selected", "words"),
    [
        ("mlx5_1", "; names are prefixes: mlx5_1 matches mlx5_10, '=mlx5_1' is exact"),
        ("^mlx5_1", "; names are prefixes: mlx5_1 would also exclude mlx5_10, '^=mlx5_1' is exact"),
        ("^mlx5_2", ""),
        ("=mlx5_1,mlx5_12", "; none of its cards is mlx5_12"),
    ],
)
def test_names_of_cards_that_are_prefixes_or_of_no_card_are_named(first, selected, words):
    used = "[0]mlx5_1:1/IB [1]mlx5_10:1/IB" if selected == "mlx5_1" else "[0]mlx5_1:1/IB"
    lines = [
        "{0}:1:1 [0] NCCL INFO NCCL_IB_HCA set to " + selected,
        "{0}:1:1 [0] NCCL INFO NET/IB : Using " + used + " [RO]; OOB eth0:10.0.0.1<0>",
        "{0}:1:1 [0] NCCL INFO comm 0x1 rank {1} nranks 16 cudaDev 0 busId 1000 commId 0x2 - Init START",
        "{0}:1:1 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",
    ]
    found = first("".join(f"{line.format(host, rank)}\n" for host, rank in (("n1", 0), ("n2", 8)) for line in lines))
    text = next(one.text for one in found.findings if one.cause == "few_network_cards")
    assert text.partition(" of a node")[2] == words


def test_only_forecast_gains_are_gains_and_causes_are_plain_texts(first):
    found = first(titled(hgx01=ports(400, 400), hgx02=ports(400, 200), hgx03=ports(400, 400)))
    assert all(math.isnan(one.gain) and type(one.cause) is str for one in found.findings)
    for rank, is_gain in ((1.4, True), (0.5, False), (49.9, False), (57.0, False)):
        assert math.isnan(Finding("cause", "text", "remedy", rank).gain) != is_gain


def rank_log(rank, via):
    host = f"n{rank // 8}"
    hop = f"Channel 00/0 : {rank}[{rank % 8}] -> {(rank + 1) % 16}[{(rank + 1) % 8}]"
    lines = [
        "NCCL version 2.21.5+cuda12.4",
        f"comm 0x1 rank {rank} nRanks 16 nNodes 2 localRanks 8 localRank {rank % 8} MNNVL 0",
        f"comm 0x1 rank {rank} nranks 16 cudaDev {rank % 8} busId 1000 commId 0x2 - Init START",
        f"{hop} [send] via {via}" if rank % 8 == 7 else f"{hop} via P2P/CUMEM",
    ]
    return "".join(f"{host}:1:1 [{rank % 8}] NCCL INFO {line}\n" for line in lines)


def test_logs_of_single_ranks_are_one_run(first):
    found = first(*(rank_log(rank, "NET/IB/0/GDRDMA" if rank == 7 else "NET/IB/0") for rank in range(16)))
    assert not [one for one in found.findings if one.cause == "no_gpudirect"]
    (run,) = [text for text in found.statements if "16 ranks on 2 nodes" in text]
    assert (
        "P2P/CUMEM (14)" in run
        and "NET/IB/GDRDMA (1)" in run
        and "0.txt and 15 more files: NCCL log" in found.sources[0]
    )
    found = first(*(rank_log(rank, "NET/IB/0") for rank in range(16)))
    assert len([one for one in found.findings if one.cause == "no_gpudirect"]) == 1
    # Three logs of each rank are of several runs.
    logs = [rank_log(rank, "NET/IB/0") for rank in range(16)]
    assert len([text for text in first(*logs, *logs, *logs).statements if "16 ranks" in text]) > 1


POLLING = "State                              : {}\nPhysical state                     : {}\nEnabled Link Speed   : 0xfe (NDR,HDR)\n"


def test_ports_that_are_down_on_several_hosts_stay_faults(first):
    active, down = (POLLING.format(*states) for states in (("Active", "LinkUp"), ("Polling", "Polling")))
    hosts = {f"n{number:02}": down if number in (2, 5) else active for number in range(8)}
    found = first(titled(**hosts))
    assert str(found.verdict).startswith("a fault is stated") and len(found.findings) == 2
    # A switch without power looks like this.
    port = PORT.format("mlx5_0", "Down", "Polling", 40, "InfiniBand")
    assert str(first(titled(n1=port, n2=port)).verdict).startswith("a fault is stated")
    port = port.replace("Polling", "Disabled")
    assert str(first(titled(n1=port, n2=port)).verdict).startswith("a fault is stated")


@pytest.mark.parametrize(("old", "new"), [("OpType=ALLREDUCE", "OpType=BROADCAST"), ("NumelIn=100", "NumelIn=7")])
def test_ranks_in_different_calls_are_no_fault_of_the_network(first, old, new):
    reports = [WATCHDOG.format(rank).replace("ALLREDUCE", "ALLREDUCE, NumelIn=100") for rank in range(4)]
    reports[3] = reports[3].replace(old, new)
    (found,) = first("".join(map(RANK.format, range(4))) + "".join(reports)).findings
    assert found.cause == "waiting_ranks" and "on rank 3" in found.text and "P2P" not in found.remedy


def test_ranks_of_a_host_without_output_are_not_called_silent(first):
    reports = "".join(WATCHDOG.format(rank) for rank in range(12))
    log = "".join(RANK.format(rank).replace("nranks 4", "nranks 16") for rank in range(12)) + reports
    assert [one.cause for one in first(log).findings] == ["nccl_error"]
    assert (
        "12, 13, 14, 15 do not" in first(log + "[rank12]: a\n[rank13]: a\n[rank14]: a\n[rank15]: a\n").findings[0].text
    )


def test_reports_of_newer_versions_are_read(first):
    reports = [WATCHDOG.format(rank) for rank in (0, 1, 3)]
    log = "".join(one.replace("[Rank ", "[PG ID 0 PG GUID 0(default_pg) Rank ") for one in reports)
    assert first("".join(map(RANK.format, range(4))) + log).findings[0].cause == "silent_ranks"


def test_an_old_state_of_a_device_does_not_explain_a_stated_failure(first):
    log = "trx:1:2 [2] misc/shmutils.cc:9 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes\n"
    assert [one.cause for one in first(RANK.format(0) + log, OFF_THE_BUS).findings] == ["nccl_error", "gpu_errors"]


def test_aggregation_nodes_of_switches_are_no_hosts(first):
    hosts = "".join(f'[{n}]\t"H-{n}"[1]({n}) \t\t# "cn{n} mlx5_0" lid {n} 4xNDR\n' for n in range(1, 9))
    sharp = '[41]\t"H-aa"[1](aa) \t\t# "Mellanox Technologies Aggregation Node" lid 90 4xHDR\n'
    text = f'Switch\t41 "S-a0"\t\t# "leaf1" enhanced port 0 lid 1 lmc 0\n{hosts}{sharp}'
    assert not first(text).findings
    assert first(text.replace('"cn3 mlx5_0" lid 3 4xNDR', '"cn3 mlx5_0" lid 3 4xHDR')).findings[0].host == "cn3"


def test_many_hosts_of_a_title_are_not_listed():
    rule = f"{RULE}\nn[0-999998]\n{RULE}\na\n"
    assert set(lines_by_host(20 * rule)) == {"", "n[0-999998]"}
    assert not lines_by_host(f"{RULE}\nn[0-999999][0-999999]\n{RULE}\na\n")


def test_tasks_of_long_texts_are_found():
    blocks = "".join(f"{task}: line {number} of many\n" for task in range(4) for number in range(2000))
    assert {name: len(lines) for name, lines in lines_by_host(blocks).items() if name} == dict.fromkeys(
        ("task 0", "task 1", "task 2", "task 3"), 2000
    )


def run_log(rates, hosts=("n1", "n2")):
    ranks = "".join(
        f"#  Rank {rank:2} Group  0 Pid 1 on {hosts[rank // 8]} device {rank % 8} [0000:1{rank % 8}:00] NVIDIA H100 80GB HBM3\n"
        for rank in range(8 * len(hosts))
    )
    factor = 2 * (8 * len(hosts) - 1) / (8 * len(hosts))
    rows = "".join(
        f"{2**n:12} {2**n // 4:12} float sum -1 {2**n * factor / rates / 1e3:10.2f} {rates / factor:.2f} {rates:.2f} 0\n"
        for n in (30, 33)
    )
    return f"# Collective test starting: all_reduce_perf\n{ranks}# size count type redop root time algbw busbw #wrong\n{rows}"


def test_two_disjoint_pairs_name_the_hosts_of_the_slow_one(first):
    found = first(run_log(235.0), run_log(470.0, ("n3", "n4"))).findings[0]
    assert found.cause == "slow_host" and found.text.startswith("n1 or n2 is slow:")
    assert "in the other pair" in found.text and "with a host of a fast pair" in found.remedy


def test_a_run_that_is_some_percent_slower_on_the_same_hosts_is_noted(first):
    notes = first(run_log(470.0), run_log(400.0)).notes
    assert any("15 % less than on the same hosts" in note for note in notes)
    assert not any("on the same hosts" in note for note in first(run_log(470.0), run_log(460.0)).notes)


@pytest.mark.parametrize(
    ("nic", "kind"), [("10x400", "within"), ("8x400", "within"), ("8x200", "faster than expected")]
)
def test_more_ports_than_gpus_do_not_prevent_a_comparison(first, nic, kind):
    found = first(run_log(330.0, ("n1", "n2", "n3", "n4")), nic=nic)
    assert str(found.verdict).startswith(kind) and found.compared == 1


def test_one_card_without_gpudirect_is_named(first):
    hops = [
        f"Channel 00/0 : {rank}[{rank % 8}] -> {(rank + 8) % 32}[{rank % 8}] [send] via NET/IB/{rank % 8}/GDRDMA"
        for rank in range(32)
    ]
    hops[21] = hops[21].replace("/GDRDMA", "")
    lines = "".join(f"n{rank // 8}:1:1 [{rank % 8}] NCCL INFO {hop}\n" for rank, hop in enumerate(hops))
    comm = "".join(
        f"n{rank // 8}:1:1 [{rank % 8}] NCCL INFO comm 0x1 rank {rank} nranks 32 cudaDev {rank % 8} busId 1{rank % 8}000 commId 0x2 - Init START\n"
        for rank in range(32)
    )
    (found,) = [one for one in first(comm + lines).findings if "gpudirect" in one.cause]
    assert found.text.startswith("rank 21 sends without GPUDirect RDMA over NET/IB/5, 31 other hops")


@pytest.mark.parametrize(("rate", "kind"), [(90.0, "slower than expected"), (344.0, "within the expected range")])
def test_a_run_without_gpudirect_is_compared_with_a_forecast_that_has_it(first, rate, kind):
    hops = "".join(
        f"n{rank // 8 + 1}:1:1 [{rank % 8}] NCCL INFO Channel 00/0 : {rank}[{rank % 8}] -> {(rank + 8) % 32}[{rank % 8}] "
        f"[send] via NET/IB/{rank % 8}\n"
        for rank in range(32)
    )
    found = first(f"n1:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n{hops}{run_log(rate, ('n1', 'n2', 'n3', 'n4'))}")
    assert str(found.verdict).startswith(kind) and found.compared == 1
    assert found.findings[0].cause == "no_gpudirect"
    assert any(
        "with GPUDirect RDMA, which this run does not use" in text for text in (str(found.verdict), *found.notes)
    )


def test_a_cluster_file_without_gpudirect_is_not_compared_with_a_forecast_that_has_it(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: a\nnode: hgx_h100\nnodes: 4\nnic: 8x400\ngpudirect: false\n")
    (tmp_path / "run.log").write_text(run_log(90.0, ("n1", "n2", "n3", "n4")))
    found = fc.diagnose([tmp_path / "cluster.yaml", tmp_path / "run.log"])
    assert not any(one.cause == "slower_than_forecast" for one in found.findings)


def test_the_peer_of_lost_messages_is_named(first):
    start = "n{0}:1:1 [0] NCCL INFO Bootstrap{1}: Using eth0:10.20.0.1{0}<0>\n"
    for blank in ("", " "):
        log = (
            start.format(1, blank)
            + start.format(3, blank)
            + LOST.replace("hgx01", "n1").replace("10.20.0.11", "10.20.0.13")
        )
        assert "(n1, peer n3)" in first(log).findings[0].text


def test_one_file_of_each_host_is_compared(tmp_path):
    paths = []
    for number in range(1, 5):
        (tmp_path / f"n{number}").mkdir()
        path = tmp_path / f"n{number}" / "state.txt"
        rate = 200 if number == 3 else 400
        ports = "".join(
            f"CA 'mlx5_{card}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.{1 + (number == 4)}\n"
            f"\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n"
            for card in range(2)
        )
        gpus = "".join(f"GPU {gpu}: NVIDIA H100 (UUID: GPU-{number}{gpu})\n" for gpu in range(7 if number == 2 else 8))
        path.write_text(gpus + ports)
        paths.append(str(path))
    found = fc.diagnose(paths)
    causes = {one.cause: (one.host, one.text) for one in found.findings}
    assert causes["host_differs_gpus"] == ("n2", "n2 lists 7 GPUs; each of 3 other hosts 8")
    slow = "n3 mlx5_0 port 1, mlx5_1 port 1 run at 200 Gbit/s, most ports at 400 Gbit/s"
    assert causes["network_port"] == ("n3", slow)
    assert any("28.39.2 on n4, 28.39.1 on 3 other hosts" in str(note) for note in found.notes)
    # Two files may be of one host, or of different machines.
    assert not fc.diagnose(paths[1:3]).findings
    other = tmp_path / "n2" / "state.txt"
    other.write_text(other.read_text().replace("H100", "L40S"))
    assert "host_differs_gpus" not in {one.cause for one in fc.diagnose(paths).findings}


SELECTED = (
    "n{0}:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1\n"
    "n{0}:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/{1} [1]mlx5_1:1/{1} [RO]; OOB eth0:10.0.0.1<0>\n"
    "n{0}:1:1 [0] NCCL INFO comm 0x1 rank {2} nranks 16 cudaDev 0 busId 1000 commId 0x2 - Init START\n"
    "n{0}:1:1 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
)


@pytest.mark.parametrize(("rates", "cause"), [((400,) * 8, "unused_network_cards"), ((400, 400), "few_network_cards")])
def test_cards_that_a_setting_leaves_out_are_certain_if_ports_are_stated(first, rates, cause):
    log = "".join(SELECTED.format(host, "IB", 8 * host) for host in range(2))
    found = first(log, titled(n0=ports(*rates), n1=ports(*rates)))
    assert cause in [one.cause for one in found.findings]


@pytest.mark.parametrize(("layer", "words"), [("IB", "subnet manager"), ("RoCE", "NCCL_IB_GID_INDEX")])
def test_the_remedy_of_a_connection_is_that_of_its_network(first, layer, words):
    log = "".join(SELECTED.format(host, layer, 8 * host) for host in range(2))
    error = "n0:1:1 [0] ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n"
    (found,) = [one for one in first(log + error).findings if one.cause == "nccl_error"]
    assert words in found.remedy


def test_what_is_the_same_on_all_hosts_names_all(first):
    text = titled(
        **{f"n{number}": ports(400, 400) + ETHERNET + ETHERNET.replace("mlx5_9", "mlx5_8") for number in range(5)}
    )
    statements = first(text).statements
    assert any(one.startswith("all 5 hosts: active ports") for one in statements)
    (unused,) = [one for one in statements if "unused ports of Ethernet" in one]
    assert "mlx5_9 port 1, mlx5_8 port 1 are Down" in unused


def test_ports_of_files_are_the_cards_of_a_cluster_and_uneven_ones_are_named(tmp_path):
    good, bad = (tmp_path / f"{name}.txt" for name in ("good", "bad"))
    good.write_text(titled(**{f"n{number}": ports(*[200] * 8) for number in range(4)}))
    bad.write_text(titled(**{f"n{number}": ports(*[200] * 7, 100 if number == 2 else 200) for number in range(4)}))
    cluster = fc.load_cluster(["hgx_h100", good], nodes=4)
    assert cluster.kinds[0].card_bytes_per_s < 25e9
    forecast = fc.cluster_collective(cluster, sizes=["1 GiB"])
    assert (forecast.cluster.cards, forecast.cluster.card_gbit_s, forecast.cluster.nodes) == (8, 200, 4)
    uneven = fc.cluster_collective("hgx_h100", nodes=4, log=bad, sizes=["1 GiB"])
    assert any("n2 has 7 active ports of 200 Gbit/s, most hosts 8" in one.text for one in uneven.warnings)
    one = fc.cluster_collective("hgx_h100", log=good, sizes=["1 GiB"])
    assert any("the ports of 4 hosts" in warning.text for warning in one.warnings)
    assert not any("ports" in warning.text for warning in forecast.warnings)
