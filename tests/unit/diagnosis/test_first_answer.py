"""The first line of a diagnosis, and the kinds of faults behind wrong first answers, each with a small input."""

import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.core.warnings import WarningCode
from fabricast.known_messages.table import message_table
from fabricast.sources.reading import read
from tests.nccl_tests_logs import nccl_tests as nccl_tests_log
from tests.unit.diagnosis.pasted import nccl_tests, peer_test
from tests.unit.pcie.topology.test_listings import groups, matrix

TWO = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-55\t0\nGPU1\tPHB\t X \t0-55\t0\n"
LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect\n  PIX  = Connection traversing at most a single PCIe bridge\n"
HOPS = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"


@pytest.fixture
def diagnosed(tmp_path):
    """Return a function that writes files and returns their diagnosis."""

    def diagnose(options=None, **texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.txt").write_text(text)
        return fc.diagnose([tmp_path / f"{name}.txt" for name in texts], **(options or {}))

    return diagnose


def causes_of(diagnosis):
    return [finding.cause for finding in diagnosis.findings]


def unequal(*rows):
    names = [f"GPU{number}" for number in range(len(rows))]
    lines = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity"]
    lines += [f"{name}\t{chr(9).join(row.split())}\t0-55\t0" for name, row in zip(names, rows, strict=True)]
    return "\n".join(lines) + "\n"


def test_copies_as_fast_as_on_public_machines_are_within_the_range(diagnosed):
    found = diagnosed({"gpu": "L40S"}, topo=TWO, p2p=peer_test([[0, 26.0], [26.0, 0]]))
    assert str(found.verdict).startswith("within the expected range: direct copies reach 26 GB/s (median), ")
    assert "PCIe Gen4 x16" in str(found.verdict) and not found.has_causes


def test_a_cause_comes_first_and_names_the_gpu(diagnosed):
    rates = [[3.9 if 3 in (one, other) else 25.9 for other in range(4)] for one in range(4)]
    found = diagnosed({"gpu": "RTX 4090"}, topo=matrix(groups((4, "PHB")), numa=[0] * 4), p2p=peer_test(rates))
    assert str(found.verdict).startswith("slower than expected: GPU 3 ") and found.has_causes
    assert causes_of(found) == ["slow_endpoint"]


def test_nothing_is_judged_without_a_measurement(diagnosed):
    found = diagnosed({"gpu": "A100 PCIe"}, topo=TWO)
    assert str(found.verdict).startswith("nothing could be judged: nothing is measured") and not found.has_causes


def test_other_ranks_are_not_supported(diagnosed):
    found = diagnosed({"link": "gen4x16"}, topo=TWO, log=nccl_tests("all_reduce", 6, {1 << 26: 9e4}))
    assert str(found.verdict).startswith("not supported: the table of ") and "has 6 ranks, expected 2" in str(
        found.verdict
    )


def test_stock_geforce_gets_no_remedy_that_cannot_work(diagnosed):
    rates = [[0 if one == other else 19.5 for other in range(4)] for one in range(4)]
    pairs = [(one, other) for one in range(4) for other in range(4) if one != other]
    topology = matrix(groups((4, "PHB")), numa=[0] * 4)
    text = peer_test(rates, disabled=pairs)
    log = nccl_tests("all_reduce", 4, {1 << 26: 9000.0}, "NVIDIA GeForce RTX 4090")
    found = diagnosed({"gpu": "RTX 4090"}, topo=topology, p2p=text, log=log)
    assert any("a modified driver changes that, settings do not" in one for one in found.notes)
    for finding in found.findings:
        assert not any(word in finding.remedy for word in ("ACS", "IOMMU", "NCCL_P2P_LEVEL")), finding


def test_the_rate_of_a_narrower_link_is_named(diagnosed):
    found = diagnosed({"gpu": "L40S"}, topo=TWO, p2p=peer_test([[0, 6.6], [6.6, 0]]))
    (finding,) = found.findings
    assert finding.cause == "below_public_machines" and "Gen4 x4" in finding.text and "Gen3 x8" in finding.text


# Kind 1: SYS is another NUMA node.
def test_a_card_behind_another_numa_node_is_no_cause(diagnosed):
    topology = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-71\t0\nNIC0\tSYS\t X \t\t\n"
    found = diagnosed({"gpu": "GH200"}, topo=topology)
    assert not found.findings
    assert not any("socket" in one.text for one in found.warnings)


# Kinds 2 and 3: NVLinks that are unequal or not printed.
@pytest.mark.parametrize(
    ("rows", "gpu", "text"),
    [
        (("X NV18 NODE", "NV18 X NODE", "NODE NODE X"), "B200", "GPU 2 has no NVLink, the others have NV18"),
        (("X NV18 NODE", "NV18 X NODE", "NODE NODE X"), None, "GPU 2 has no NVLink, the others have NV18"),
        (("X NV12 NV8 NV12", "NV12 X NV8 NV12", "NV8 NV8 X NV8", "NV12 NV12 NV8 X"), "A100-SXM4", "GPU 2 has NV8, the"),
        (
            ("X NV6 NV6 NV5", "NV6 X NV6 NV6", "NV6 NV6 X NV6", "NV5 NV6 NV6 X"),
            "H100 SXM5",
            "GPU 0, 3 have fewer NVLinks",
        ),
    ],
)
def test_unequal_nvlinks_are_a_cause(diagnosed, rows, gpu, text):
    (finding,) = diagnosed({"gpu": gpu}, topo=unequal(*rows)).findings
    assert finding.cause == "unequal_direct_links" and finding.text.startswith(text)
    assert "fabric" in finding.remedy and "Xid" in finding.remedy


@pytest.mark.parametrize(
    ("rows", "gpu"),
    [
        (("X NV4 SYS", "NV4 X SYS", "SYS SYS X"), "RTX 3090"),
        (("X NV1 NV1", "NV1 X NV2", "NV1 NV2 X"), "V100-SXM2"),
        (("X NV18 NV18", "NV18 X NV18", "NV18 NV18 X"), "H200"),
    ],
)
def test_bridges_and_meshes_may_be_unequal(diagnosed, rows, gpu):
    assert not diagnosed({"gpu": gpu}, topo=unequal(*rows)).findings


def test_nvlinks_that_are_not_printed_are_refused(tmp_path):
    (tmp_path / "topo.txt").write_text(TWO + LEGEND)
    with pytest.raises(
        InputError, match=r"shows no NVLink.*'nvidia-smi topo -mp' omits NVLink: expected 'nvidia-smi topo -m'"
    ):
        fc.predict(tmp_path / "topo.txt", [(0, 1)], gpu="H100 80GB HBM3")
    with pytest.raises(InputError, match="the links are down"):
        (tmp_path / "topo.txt").write_text(TWO)
        fc.predict(tmp_path / "topo.txt", [(0, 1)], gpu="H100 80GB HBM3")
    # A PCIe card has none.
    assert len(fc.predict(tmp_path / "topo.txt", [(0, 1)], gpu="H100 PCIe")) == 1


def test_a_link_that_ends_at_its_own_gpu_and_the_compute_capability_of_xml(tmp_path):
    gpus = "".join(
        f'<pci busid="0000:0{number}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{number}" sm="80"><nvlink target="0000:0{number}:00.0" count="4"/></gpu></pci>'
        for number in (1, 2)
    )
    (tmp_path / "m.xml").write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    machine = fc.load_machine([tmp_path / "m.xml"])
    codes = [one.code for one in machine.tree.warnings]
    assert codes.count(WarningCode.PEER_LINKS_UNKNOWN) == 2
    assert machine.capability == 8.0
    forecast = fc.collective(machine, sizes=["1 MiB"])
    assert not any("compute capability" in one.text for one in forecast.warnings)


# Kind 4: names of GPUs.
@pytest.mark.parametrize(
    ("gpu", "link"), [("GH200", 450e9), ("NVIDIA GH200 480GB", 450e9), ("GB200", 225e9), ("GB300", 225e9)]
)
def test_superchips_are_not_connected_with_pcie(tmp_path, gpu, link):
    (tmp_path / "topo.txt").write_text(unequal("X"))
    times = fc.predict(tmp_path / "topo.txt", fc.host_copies(fc.load_topology(tmp_path / "topo.txt")), gpu=gpu)
    rate = times["size_bytes"].iloc[0] / times["elapsed_s"].min()
    assert 0.55 * link < rate < link
    assert any("NVLink-C2C" in one.text for one in times.attrs["warnings"])


# Kind 5: only r and w say anything about direct copies.
@pytest.mark.parametrize("letter", ["n", "a", "p"])
def test_other_capabilities_deny_no_direct_copies(diagnosed, letter):
    access = f"$ nvidia-smi topo -p2p {letter}\n \tGPU0\tGPU1\n GPU0\tX\tNS\n GPU1\tNS\tX\n"
    found = diagnosed({"gpu": "A100 PCIe"}, topo=TWO, access=access)
    assert found.tree.staged_pairs == () and not found.findings
    assert diagnosed(
        {"gpu": "A100 PCIe"}, topo=TWO, access=access.replace(f"-p2p {letter}", "-p2p r")
    ).tree.staged_pairs
    both = access + access.replace(f"-p2p {letter}", "-p2p rw").replace("NS", "OK")
    assert diagnosed({"gpu": "A100 PCIe"}, topo=TWO, access=both).tree.staged_pairs == ()


# Kind 7: blocks.
def test_tables_in_documents_and_with_further_columns_are_read(tmp_path):
    text = nccl_tests("all_reduce", 2, {1 << 20: 100.0, 1 << 22: 300.0})
    (tmp_path / "plain.log").write_text(text)
    indented = "".join(f"   {line}\n" for line in text.splitlines())
    (tmp_path / "rst.log").write_text(f"Results::\n\n{indented}\nend of the text\n")
    (tmp_path / "markdown.log").write_text(f"Results\n\n```\n{text}```\nthanks\n")
    (plain,) = read([tmp_path / "plain.log"]).values(Quantity.COLLECTIVE)
    for name in ("rst", "markdown"):
        (table,) = read([tmp_path / f"{name}.log"]).values(Quantity.COLLECTIVE)
        assert [row.time_s for row in table.rows] == [row.time_s for row in plain.rows]
    head = "# size count type redop root time algbw busbw #wrong CPU Util time algbw busbw #wrong CPU Util\n"
    row = "1048576 262144 float sum -1 100.0 10.49 10.49 0 3.20 101.0 10.38 10.38 0 3.10\n"
    (tmp_path / "rccl.log").write_text("rccl-tests: Version develop:448c4c7\n# Using all_reduce_perf\n" + head + row)
    (table,) = read([tmp_path / "rccl.log"]).values(Quantity.COLLECTIVE)
    (only,) = table.rows
    assert (only.time_s, only.in_place_s, only.wrong) == (pytest.approx(100e-6), pytest.approx(101e-6), 0)


def test_a_block_without_accelerators_does_not_spoil_the_others(diagnosed):
    listing = "00:00.0 Host bridge: Intel Corporation Device 09a2\n\tSubsystem: Intel Corporation Device 0000\n"
    listing += "\tCapabilities: [a0] Express (v2) Endpoint, MSI 00\n\t\tLnkCap:\tPort #0, Speed 5GT/s, Width x4\n\n"
    found = diagnosed({"gpu": "A100 PCIe"}, lspci=listing, topo=TWO, p2p=peer_test([[0, 26.0], [26.0, 0]]))
    assert str(found.verdict).startswith("within the expected range")


# Kind 8 and statements of logs.
def test_statements_of_a_log_need_no_topology(diagnosed):
    log = (
        "NCCL version 2.18.5+cuda12.2\n"
        + HOPS
        + "n:1:2 [0] NCCL INFO Using network IB\n"
        + "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"
    )
    found = diagnosed(log=log)
    assert any("NCCL 2.18.5, 16 ranks on 2 nodes, hops via NET/IB (1), network IB" in one for one in found.statements)
    assert causes_of(found) == ["no_gpudirect"]
    assert not diagnosed(log=log.replace("NET/IB/0", "NET/IB/0/GDRDMA")).findings
    sockets = log.replace("NET/IB/0", "NET/Socket/0").replace("network IB", "network Socket")
    assert causes_of(diagnosed(log=sockets)) == ["tcp_between_nodes"]


@pytest.mark.parametrize(("cards", "is_named"), [((0, 0, 0, 0), True), ((0, 1, 2, 3), False)])
def test_one_network_card_of_a_node_is_its_ceiling(diagnosed, cards, is_named):
    lines = "".join(
        f"n:1:2 [{rank}] NCCL INFO Channel 0{rank}/0 : {rank}[{rank}] -> {rank + 8}[{rank}] [send] via "
        f"NET/IB/{card}/GDRDMA\n"
        for rank, card in enumerate(cards)
    )
    found = diagnosed(log=HOPS + lines)
    assert not found.findings
    assert any("8 GPUs of a node send over one network card" in one for one in found.statements) == is_named


@pytest.mark.parametrize(("classes", "is_named"), [(("PIX", "PIX", "NODE", "NODE"), True), (("PIX",) * 4, False)])
def test_gpus_without_a_network_card_of_their_own_are_listed(diagnosed, classes, is_named):
    names = [f"GPU{i}" for i in range(4)]
    rows = [
        [name, *("X" if i == j else "NODE" for j in range(4)), *(path if i == k else "NODE" for k in range(4))]
        for i, (name, path) in enumerate(zip(names, classes, strict=True))
    ]
    cards = [
        [
            f"NIC{k}",
            *(classes[i] if i == k else "NODE" for i in range(4)),
            *("X" if k == m else "NODE" for m in range(4)),
        ]
        for k in range(4)
    ]
    header = ["", *names, *(f"NIC{k}" for k in range(4))]
    topo = "\n".join("\t".join(row) for row in [header, *rows, *cards]) + "\n"
    found = diagnosed(topo=topo)
    assert any("GPU 2, 3: no network card below" in one for one in found.statements) == is_named


def test_two_ranks_that_share_a_network_card_are_named(diagnosed):
    cards = [0, 0, 2, 3]
    lines = "".join(
        f"n:1:2 [{rank}] NCCL INFO Channel 0{rank}/0 : {rank}[{rank}] -> {rank + 8}[{rank}] [send] via NET/IB/{card}/GDRDMA\n"
        for rank, card in enumerate(cards)
    )
    (finding,) = diagnosed(log=HOPS + lines).findings
    assert finding.cause == "shared_network_card" and "ranks 0, 1" in finding.text
    assert not diagnosed(
        log=HOPS + lines.replace("1[1] -> 9[1] [send] via NET/IB/0", "1[1] -> 9[1] [send] via NET/IB/1")
    ).findings
    # The card of a receiver is no card of the sender; a rank in brackets forwards to the card.
    received = lines.replace("NET/IB/0/", "NET/IB/1/", 1).replace("NET/IB/1/", "NET/IB/1(3)/")
    received += "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/0/GDRDMA\n"
    assert not diagnosed(log=HOPS + received).findings


def test_old_versions_are_named(diagnosed):
    log = nccl_tests("all_reduce", 2, {1 << 26: 9000.0}).replace(" nccl-headers=23007 nccl-library=23007", "")
    found = diagnosed({"link": "gen4x16"}, topo=TWO, log="NCCL version 2.8.3+cuda11.0\n" + log)
    assert str(found.verdict).startswith("not supported: NCCL 2.8.3 of the log is older than 2.12")


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        (
            "Error while creating shared memory segment /dev/shm/nccl-x (size 9637888), error: No space left on device (28)",
            "/dev/shm",
        ),
        ("Bootstrap : no socket interface found", "no network interface"),
        ("socketStartConnect: Connect to 10.0.0.2<41207> failed : Connection refused", "no process listens"),
        ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000", "same GPU"),
        ("Message truncated : received 256 bytes instead of 16", "different versions"),
        ("Cuda failure 'out of memory'", "memory of a GPU is full"),
        ("Cuda failure 802 'system not yet initialized'", "fabric manager"),
        ("Cuda failure 'unknown error'", "a CUDA call failed"),
        ("NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129", "lost messages"),
        ("NET/IB : Got completion with error 4, opcode 1, len 0, vendor err 81", "cannot reach the memory of the GPU"),
        ("Call to ibv_reg_mr failed with error Cannot allocate memory", "cannot be locked"),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)", "did not end in time"),
        (
            'NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by "sudo sysctl"',
            "NUMA",
        ),
        ("transport/nvls.cc:120 failed to bind multicast memory", "NVLS"),
        (
            "Test NCCL failure common.cu:1012 'remote process exited or there was a network error'",
            "connection to another rank was lost",
        ),
    ],
)
def test_warnings_and_errors_have_their_meaning(diagnosed, message, meaning):
    assert meaning in message_table("nccl").problem(message).meaning
    is_error = message.startswith(("Watchdog", "Test NCCL"))
    line = f"node1: {message}\n" if is_error else f"node01:41207:41231 [0] misc/x.cc:72 NCCL WARN {message}\n"
    found = diagnosed(topo=TWO, log=line * 3)
    first = found.findings[0]
    assert meaning in first.text and first.remedy and first.origin.endswith("log.txt:1")
    assert sum(meaning in one.text for one in found.findings) == 1
    assert meaning in str(found.verdict)


def test_unknown_warnings_are_quoted(diagnosed):
    (finding,) = diagnosed(topo=TWO, log="n:1:2 [0] NCCL WARN something new happened\n").findings
    assert 'NCCL warns: "something new happened"' in finding.text


def test_states_of_gpus_are_stated(diagnosed):
    report = """==============NVSMI LOG==============

Attached GPUs                             : 2
GPU 00000000:18:00.0
    Product Name                          : NVIDIA A100-PCIE-40GB
    Clocks Event Reasons
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 3
        Aggregate
            DRAM Uncorrectable            : 9
    Remapped Rows
        Pending                           : Yes
    GPU Power Readings
        Current Power Limit               : 200.00 W
        Default Power Limit               : 250.00 W
GPU 00000000:9A:00.0
    Product Name                          : NVIDIA A100-PCIE-40GB
    Clocks Event Reasons
        HW Slowdown                       : Not Active
"""
    found = diagnosed(topo=TWO, smi=report)
    assert sorted(causes_of(found)) == ["gpu_errors", "gpu_errors", "gpu_throttled", "gpu_throttled"]
    assert all("GPU 0 (0000:18:00.0)" in one.text for one in found.findings)
    # The limit of one GPU delays the others; that of all of them is a choice.
    assert any("power limit 200 W of 250 W" in one.text for one in found.findings)
    first = report.partition("GPU 00000000:9A")[0]
    alone = diagnosed(topo=TWO, smi=first)
    assert any("power limit 200 W of 250 W" in one for one in alone.statements)
    assert not any("power limit" in one.text for one in alone.findings)


def test_a_log_of_one_of_several_hosts_is_not_of_one_host(diagnosed):
    log = (
        "node00:1:2 [0] NCCL INFO comm 0x55 rank 7 nranks 16 cudaDev 7 busId 16000 - Init START\n"
        "node00:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
    )
    assert "network_in_host" not in causes_of(diagnosed(log=log))


def test_a_measurement_within_the_range_stays_the_verdict(diagnosed):
    found = diagnosed(
        {"gpu": "L40S"},
        topo=TWO,
        p2p=peer_test([[0, 26.0], [26.0, 0]]),
        log="n:1:2 [0] NCCL WARN something new happened\n",
    )
    assert str(found.verdict).startswith("within the expected range: direct copies reach 26 GB/s")
    assert "also: NCCL warns" in str(found.verdict)


def test_the_range_of_few_machines_is_no_limit(diagnosed):
    topology = unequal("X NV12", "NV12 X")
    found = diagnosed({"gpu": "A100 PCIe"}, topo=topology, p2p=peer_test([[0, 250.0], [250.0, 0]]))
    assert str(found.verdict).startswith("within the expected range: copies over NVLink reach 250 GB/s")


@pytest.mark.parametrize("name", ["topo_p2p_a100", "topo_p2p_n1"])
def test_names_of_machines_are_no_commands(diagnosed, name):
    access = " \tGPU0\tGPU1\n GPU0\tX\tNS\n GPU1\tNS\tX\n"
    assert diagnosed({"gpu": "A100 PCIe"}, topo=TWO, **{name: access}).tree.staged_pairs
    both = access + "\n$ nvidia-smi topo -p2p n\n" + access
    assert diagnosed({"gpu": "A100 PCIe"}, topo=TWO, both=both).tree.staged_pairs


def test_several_gpus_with_fewer_links_are_named_with_theirs(diagnosed):
    rows = ("X NV18 NV17 NODE", "NV18 X NV17 NODE", "NV17 NV17 X NODE", "NODE NODE NODE X")
    (finding,) = diagnosed({"gpu": "H100 SXM5"}, topo=unequal(*rows)).findings
    assert finding.text == "GPU 3 has no NVLink, GPU 2 has NV17, the others have NV18"


def test_odd_fields_of_a_report_are_left_out(diagnosed):
    report = """==============NVSMI LOG==============
GPU 00000000:18:00.0
    Product Name                          : NVIDIA A100-PCIE-40GB
    ECC Errors
        Volatile
            SRAM Uncorrectable            : \u00b2
    GPU Power Readings
        Current Power Limit               : 300,00 W
        Default Power Limit               : abc W
"""
    found = diagnosed(topo=unequal("X"), smi=report)
    assert not found.findings and not found.damaged


def test_measured_staged_copies_both_ways_need_no_rate_of_one_way(tmp_path):
    (tmp_path / "topo.txt").write_text(TWO)
    text = peer_test([[0, 26.0], [26.0, 0]]).replace(
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes)", "Bidirectional P2P=Disabled Bandwidth"
    )
    (tmp_path / "both.txt").write_text(text)
    files = [tmp_path / "topo.txt", tmp_path / "both.txt"]
    times = fc.predict(files, [(0, 1), (1, 0)], bandwidth="13 GB/s", size="1 GB", transport="staged")
    assert times["elapsed_s"].tolist() == pytest.approx([2 / 26] * 2)


def test_missing_direct_links_do_not_matter_over_pcie(tmp_path):
    (tmp_path / "topo.txt").write_text(TWO)
    assert len(fc.predict(tmp_path / "topo.txt", [(0, 1)], gpu="H200", pcie_only=True)) == 1


def test_a_long_warning_takes_linear_time(diagnosed):
    found = diagnosed(topo=TWO, log="n:1:2 [0] NCCL WARN " + "shm" * 60_000 + "\n")
    assert causes_of(found) == ["nccl_warning"]


def test_the_last_error_of_pytorch_precedes_the_words_of_its_caller(diagnosed):
    log = (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
        "Last error:\n"
        "Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)\n"
    )
    found = diagnosed(log=log)
    assert "/dev/shm" in found.findings[0].text and found.findings[0].origin.endswith("log.txt:4")
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nWatchdog caught collective operation timeout\n"
    assert "memory of a GPU is full" in str(diagnosed(log=memory).verdict)


def test_a_damaged_table_or_topology_is_named(diagnosed):
    table = nccl_tests("all_reduce", 8, {1 << 26: 900.0}, "NVIDIA L40S")
    row = next(line for line in table.splitlines() if line.strip()[:1].isdigit())
    found = diagnosed(log=table.replace(row, row.rsplit(" ", 3)[0].rsplit(" ", 1)[0] + " 1"))
    assert "no valid row of nccl-tests" in str(found.verdict) and found.has_causes
    bad = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0\nGPU1\tPIX\t X \t0\n".replace("GPU1\tPIX", "GPU1\tSYS")
    assert diagnosed(topo=bad, log=nccl_tests("all_reduce", 8, {1 << 26: 300.0}, "NVIDIA H200")).has_causes


def test_reports_of_healthy_gpus_say_so(diagnosed):
    report = "==============NVSMI LOG==============\nGPU 00000000:18:00.0\n    Product Name : NVIDIA H200\n"
    assert not any("without" in one for one in diagnosed(smi=report).statements)
    report += "    Clocks Event Reasons\n        Idle : Active\n    Remapped Rows\n        Pending : No\n"
    found = diagnosed(smi=report)
    assert any(one.startswith("1 GPU without errors or throttling") for one in found.statements)
    counters = "    Clocks Event Reasons Counters\n        SW Thermal Slowdown : {} us\n"
    assert "throttling now" not in str(diagnosed(smi=report + counters.format(0)).statements)
    earlier = str(diagnosed(smi=report + counters.format(903158)).statements)
    assert "without errors or throttling now" in earlier and "for 0.903 s (SW Thermal Slowdown)" in earlier
    replays = report + "    PCI\n        Replays Since Reset : 184213\n"
    assert "184213 PCIe replays" in str(diagnosed(smi=replays).verdict)
    fabric = report + "    Fabric\n        State : In Progress\n"
    assert "fabric manager" in diagnosed(smi=fabric).findings[0].remedy


def test_models_in_two_forms_are_one_model(diagnosed):
    listing = "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-2)\n"
    other = listing.replace("A100-PCIE-40GB", "A100 80GB PCIe")
    assert not any("several models" in one for one in diagnosed(topo=TWO, smi=listing, more=other).statements)


def test_errors_of_a_gpu_are_no_measured_rate(diagnosed):
    report = (
        "==============NVSMI LOG==============\nGPU 00000000:18:00.0\n    ECC Errors\n        Volatile\n"
        "            DRAM Uncorrectable : 3\nGPU 00000000:9A:00.0\n    Product Name : NVIDIA L40S\n"
    )
    found = diagnosed({"gpu": "L40S"}, topo=TWO, p2p=peer_test([[0, 26.0], [26.0, 0]]), smi=report)
    assert str(found.verdict).startswith("within the expected range") and "also: GPU 0" in str(found.verdict)


def test_clusters_without_public_machines_are_compared_with_a_forecast(tmp_path):
    within = nccl_tests_log(tmp_path / "within.log", [(2**20, 110.0), (2**30, 6500.0)])
    assert str(fc.diagnose([within]).verdict).startswith("within the expected range: all_reduce of 1 GiB on 32 GPUs")
    slow = nccl_tests_log(tmp_path / "slow.log", [(2**20, 600.0), (2**30, 36500.0)])
    diagnosis = fc.diagnose([slow])
    # The cards are assumed, so that slower ones would explain it: no cause is named.
    assert str(diagnosis.verdict).startswith("possibly slower than expected")
    assert str(diagnosis.verdict).endswith("times the longest expected time, if these are its cards")
    assert not diagnosis.has_causes
