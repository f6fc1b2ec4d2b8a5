"""States of devices: messages of the kernel, ports of network cards, links and power of GPUs."""

from importlib.resources import files

import pytest

import fabricast as fc
from tests.unit.diagnosis.pasted import peer_test

EXAMPLES = files("fabricast.sources") / "examples"
KERNEL = (EXAMPLES / "dmesg.txt").read_text()
PORTS = (EXAMPLES / "ibstat.txt").read_text()


@pytest.fixture
def diagnosed(tmp_path):
    """Return a function that writes files and returns their diagnosis."""

    def diagnose(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.txt").write_text(text)
        return fc.diagnose([tmp_path / f"{name}.txt" for name in texts])

    return diagnose


def texts_of(diagnosis):
    return [one.text for one in diagnosis.findings]


def test_errors_of_the_kernel_log_are_causes(diagnosed):
    found = diagnosed(dmesg=KERNEL)
    assert texts_of(found) == [
        "0000:21:00.0: has fallen off the bus (Xid 79)",
        "0000:21:00.0: 5 corrected errors of its PCIe link (BadTLP)",
    ]
    assert found.findings[0].origin.endswith("dmesg.txt:10")
    newer = KERNEL.replace("severity=Corrected", "severity=Correctable")
    assert texts_of(diagnosed(dmesg=newer)) == texts_of(found)


def test_single_errors_and_faults_of_programs_are_no_cause(diagnosed):
    lines = KERNEL.splitlines()
    few = "\n".join([*lines[:5], lines[-1].replace(": 79", ": 31")]) + "\n"
    found = diagnosed(dmesg=few)
    assert not found.findings and not found.has_causes
    assert any("0000:21:00.0: 1 corrected PCIe error" in text and "fewer than 5" in text for text in found.statements)
    quiet = diagnosed(dmesg=KERNEL.splitlines()[0] + "\n")
    assert any("no repeated PCIe errors" in text for text in quiet.statements)


def test_uncorrected_errors_are_causes(diagnosed):
    one = KERNEL.splitlines()[3].replace("severity=Corrected", "severity=Uncorrected (Non-Fatal)")
    assert texts_of(diagnosed(dmesg=f"{one}\n")) == ["0000:21:00.0: uncorrected errors of its PCIe link"]


def test_ports_that_are_down_or_slow_are_named(diagnosed):
    found = diagnosed(ibstat=PORTS)
    assert texts_of(found) == [
        "mlx5_1 port 1 runs at 200 Gbit/s, most ports at 400 Gbit/s",
        "mlx5_2 port 1 is Down (Polling)",
    ]
    assert "active ports of network cards: 2 x 400 Gbit/s, 1 x 200 Gbit/s" in str(found.statements)
    equal = PORTS.replace("Rate: 200", "Rate: 400").replace("State: Down", "State: Active")
    assert not diagnosed(ibstat=equal.replace("Rate: 10\n", "Rate: 400\n")).findings


def test_a_cut_list_of_ports_is_refused(diagnosed):
    with pytest.raises(fc.InputError, match=r"mlx5_3 port 1 lacks its state or rate"):
        diagnosed(ibstat=PORTS.partition("Physical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 102")[0])


def report(state="P2", load=97, current=1):
    """Return a report of nvidia-smi -q about two GPUs, the first with a link at another generation."""
    gpus = [
        f"""GPU 00000000:{bus}:00.0
    Product Name                          : NVIDIA L40S
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : {now}
            Link Width
                Max                       : 16x
                Current                   : 16x
    Performance State                     : {state}
    Utilization
        Gpu                               : {load} %
"""
        for bus, now in (("18", current), ("9A", 4))
    ]
    return "==============NVSMI LOG==============\n\nAttached GPUs : 2\n" + "".join(gpus)


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [({}, True), ({"state": "P8", "load": 0}, False), ({"load": 3}, False), ({"current": 4}, False)],
)
def test_an_old_generation_under_load_is_a_cause(diagnosed, changes, is_named):
    found = diagnosed(smi=report(**changes))
    named = "GPU 0 (0000:18:00.0): its link runs at Gen1 of Gen4 under load"
    assert (named in texts_of(found)) == is_named
    assert bool(found.findings) == is_named


def test_a_stated_fault_precedes_the_slow_copies_that_it_explains(diagnosed):
    rates = [[900, 25, 25, 6], [25, 900, 25, 6], [25, 25, 900, 6], [6, 6, 6, 900]]
    topo = "\n".join(
        "\t".join(
            ["", *[f"GPU{k}" for k in range(4)]]
            if row < 0
            else [f"GPU{row}", *("X" if row == k else "PHB" for k in range(4))]
        )
        for row in range(-1, 4)
    )
    gpus = "".join(
        f"GPU 00000000:{k + 1}1:00.0\n    Product Name : NVIDIA L40S\n"
        + ("    PCI\n        Replays Since Reset : 5000\n" if k == 3 else "")
        for k in range(4)
    )
    found = diagnosed(topo=f"{topo}\n", smi=f"==============NVSMI LOG==============\n{gpus}", p2p=peer_test(rates))
    first, second = found.findings[:2]
    assert (first.cause, second.cause) == ("gpu_errors", "slow_endpoint")
    assert "0000:41:00.0" in first.text and "0000:41:00.0" in second.text


def test_inactive_nvlinks_of_one_gpu_are_named(diagnosed):
    def gpu(number, active):
        links = "".join(f"\t Link {k}: {'26.562 GB/s' if k < active else '<inactive>'}\n" for k in range(18))
        return f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-{number})\n{links}"

    found = diagnosed(nvlink=gpu(0, 18) + gpu(1, 17) + gpu(2, 18))
    assert texts_of(found) == ["GPU 1: NVLink 17 inactive, 17 of 18 links work, on other GPUs 18"]
    # A model without some links is no fault.
    assert not diagnosed(nvlink=gpu(0, 12) + gpu(1, 12) + gpu(2, 12)).findings


def test_the_lower_power_limit_of_one_gpu_is_named(diagnosed):
    def gpu(number, limit):
        return (
            f"|   {number}  NVIDIA GeForce RTX 4090        On  | 00000000:{number + 1}1:00.0 Off |                  Off |\n"
            f"| 30%   45C    P2             216W / {limit}W |   1000MiB / 24564MiB |     97%      Default |\n"
        )

    head = "| NVIDIA-SMI 550.90.07   Driver Version: 550.90.07   CUDA Version: 12.4 |\n"
    found = diagnosed(smi=head + gpu(0, 450) + gpu(1, 220))
    assert texts_of(found) == ["GPU 1 (0000:21:00.0): power limit 220 W of 450 W"]
    assert not diagnosed(smi=head + gpu(0, 300) + gpu(1, 300)).findings


def test_narrow_cards_cables_and_iommu_of_the_kernel_log(diagnosed):
    text = (
        "[    4.1] mlx5_core 0000:a9:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at "
        "0000:a8:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\n"
        "[    4.3] pci 0000:41:00.0: 63.012 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link at "
        "0000:40:03.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
        "[    9.0] mlx5_core 0000:b9:00.0: Port module event: module 0, Cable unplugged\n"
        "[  513.3] nvidia 0000:21:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0x28010000000]\n"
    )
    found = diagnosed(dmesg=text)
    assert sorted(texts_of(found)) == [
        "0000:21:00.0: the IOMMU refuses accesses (IO_PAGE_FAULT)",
        (
            "network card 0000:a9:00.0 has 252.048 of 504.112 Gbit/s of PCIe, limited by a link of 32.0 GT/s x8 where "
            "32.0 GT/s x16 is possible"
        ),
        "network card 0000:b9:00.0 is Down (cable unplugged)",
    ]
    assert any(one.startswith("0000:41:00.0: has 63.012 of 252.048 Gbit/s") for one in found.statements)


def test_a_narrow_link_needs_no_topology(diagnosed):
    narrow = report(load=0).replace("Current                   : 16x", "Current                   : 4x", 1)
    found = diagnosed(smi=narrow)
    (text,) = texts_of(found)
    assert text.startswith("the link of 0000:18:00.0 uses x4 of x16") and found.has_causes


def listing(port_width=16, link_width=16, suffix=""):
    """Return lspci -vv of two GPUs, the first below a port with some lanes."""
    blocks = []
    for bus, lanes, width in (("01", port_width, link_width), ("02", 16, 16)):
        blocks.append(
            f"00:0{int(bus)}.1 PCI bridge: Root Port\n\tNUMA node: 0\n\tBus: primary=00, secondary={bus}, "
            f"subordinate={bus}, sec-latency=0\n\tCapabilities: [58] Express (v2) Root Port (Slot+)\n"
            f"\tLnkCap: Port #0, Speed 16GT/s, Width x{lanes}, ASPM L1\n\tLnkSta: Speed 16GT/s, Width x{width}\n"
        )
        blocks.append(
            f"{bus}:00.0 3D controller: NVIDIA Corporation GA102GL\n\tNUMA node: 0\n\tCapabilities: [78] Express (v2) "
            f"Endpoint\n\tLnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1\n\tLnkSta: Speed 16GT/s, Width x{width}\n"
        )
    return "\n".join(blocks) + suffix


def test_a_slot_with_few_lanes_is_told_from_a_card_that_is_not_seated(diagnosed):
    (slot,) = diagnosed(lspci=listing(port_width=4, link_width=4)).findings
    assert "the port above it (0000:00:01.1) has no more lanes" in slot.text and slot.remedy.startswith("use a slot")
    (card,) = diagnosed(lspci=listing(link_width=4)).findings
    assert "the slot or a riser limits it" in card.text and card.remedy.startswith("reseat the card")


def test_a_listing_without_root_says_so(diagnosed):
    found = diagnosed(lspci=listing(suffix="\n03:00.0 Ethernet controller: Intel\n\tCapabilities: <access denied>\n"))
    assert any("sudo lspci -vv" in text for text in found.statements)


def test_a_numa_node_with_slow_memory_is_named(tmp_path):
    count = 8
    rates = [[10.5 if max(one, other) < 4 else 3.3 for other in range(count)] for one in range(count)]
    header = "\t".join(["", *[f"GPU{k}" for k in range(count)], "CPU Affinity", "NUMA Affinity"])
    rows = [
        "\t".join(
            [
                f"GPU{one}",
                *("X" if one == other else "NODE" if one // 4 == other // 4 else "SYS" for other in range(count)),
                f"{16 * (one // 4)}-{16 * (one // 4) + 15}",
                str(one // 4),
            ]
        )
        for one in range(count)
    ]
    disabled = [(one, other) for one in range(count) for other in range(count) if one != other]
    p2p = peer_test(rates, disabled=disabled).replace("P2P=Enabled", "P2P=Disabled").replace(" (P2P Writes)", "")
    (tmp_path / "topo.txt").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "p2p.txt").write_text(p2p)
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "p2p.txt"], gpu="RTX 3090")
    assert any("with GPUs 4 5 6 7 of one NUMA node reach at most 3.3 GB/s" in text for text in texts_of(found))


def test_a_gpu_that_is_gone_precedes_ranks_that_wait_for_each_other(first):
    line = "[rank{0}]:[E] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
    ranks = line.format(11, 18321) + line.format(3, 18322)
    assert first(ranks).findings[0].cause == "waiting_ranks"
    xid = "[1.5] NVRM: Xid (PCI:0000:52:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert [one.cause for one in first(ranks, xid).findings][:2] == ["gpu_errors", "waiting_ranks"]
