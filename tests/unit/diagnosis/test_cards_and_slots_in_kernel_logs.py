"""Kernel logs about network cards that hang or lose links, slots, resets and file systems, and bonds of links."""

import pytest

from fabricast.core.errors import InputError
from tests.unit.diagnosis.pasted import words

NVRM = "[    9.100000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.172.08\n"
IGC = "Nov  6 11:48:{:02} n1 kernel: [ 71{:02}.243821] igc 0000:04:00.0 eth1: NIC Link is {}\n"
RESET = (
    "[  900.1] amdgpu 0000:c5:00.0: amdgpu: GPU reset begin!\n"
    "[  901.1] amdgpu 0000:c5:00.0: amdgpu: GPU reset(1) succeeded!\n"
)
BOND = (
    "$ cat /proc/net/bonding/bond0\nEthernet Channel Bonding Driver: v6.8.0\n\n"
    "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: up\n{}\n"
)
LINK = "Slave Interface: eth{}\nMII Status: {}\nAggregator ID: {}\n\n"


def flaps(count):
    states = ["Up 1000 Mbps Full Duplex", *["Down", "Up 1000 Mbps Full Duplex"] * count]
    return "".join(IGC.format(place, place, state) for place, state in enumerate(states))


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("ena 0000:00:05.0 eth0: Found a Tx that wasn't completed on time, qid 2, index 961.", "0000:00:05.0 does not"),
        ("ena 0000:00:05.0 ens5: Keep alive watchdog timeout.", "0000:00:05.0 does not answer its driver"),
        ("i40e 0001:01:00.1 eth3: tx_timeout: VSI_seid: 396, Q 31, NTC: 0x1cb", "0001:01:00.1 does not answer"),
        ("e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:", "0000:00:1f.6 does not answer its driver"),
        ("igb 0000:02:00.0 enp2s0: PCIe link lost", "0000:02:00.0 has lost its PCIe link"),
        ("pcieport 0000:00:01.0: pciehp: Slot(1): Link Down", "0000:00:01.0: lost the link below it"),
        ("pciehp 0000:02:05.0:pcie24: slot(6): Link Down event", "0000:02:05.0: lost the link below it"),
        ("vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up", "does not come back after a reset"),
        ("LNet: 2431:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx for 10.0.0.87@o2ib: 40 seconds", "Lustre"),
        ("LustreError: 11-0: m1-MDT0: operation obd_ping to node 10.0.0.88@o2ib failed: rc = -107", "Lustre"),
        ("NVRM: No NVIDIA GPU found.", "the driver of NVIDIA finds no GPU"),
        ("i915 0000:30:00.0: [drm] *ERROR* GT0 [GUC COMMUNICATION] CT: No response for request 0x5503", "error of its"),
    ],
)
def test_lines_of_devices_are_faults_beside_harmless_lines(answer, line, state):
    diagnosis = answer(f"{NVRM}[ 7812.104512] {line}\n")
    assert state in diagnosis.findings[0].text
    assert "no errors of GPUs" not in words(diagnosis)


def test_driver_that_does_not_support_a_gpu(answer):
    diagnosis = answer(
        f"{NVRM}[   38.136321] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2330)\n"
        "[   38.136321] NVRM: installed in this system is not supported by the\n"
        "[   38.136321] NVRM: NVIDIA 550.90.07 driver release.\n"
    )
    assert "0000:01:00.0: is not supported by this version of its driver" in diagnosis.findings[0].text


@pytest.mark.parametrize("reset", ["pcieport 0000:00:01.0: pciehp: Slot(1): Link Up", "pci 0000:00:1f.0: enabled"])
def test_a_link_that_comes_back_is_no_fault(answer, reset):
    diagnosis = answer(
        f"{NVRM}[ 7810.0] pcieport 0000:00:01.0: pciehp: Slot(1): Link Down\n[ 7811.0] {reset}\n"
        "[ 7812.0] vfio-pci 0000:01:00.0: not ready 1023ms after FLR; waiting\n"
        "[ 7813.0] vfio-pci 0000:01:00.0: ready 2047ms after FLR\n"
    )
    assert len(diagnosis.findings) == ("Up" not in reset)


def test_links_of_ethernet_cards_that_flap(answer):
    assert "network card 0000:04:00.0 lost its link 3 times" in answer(flaps(3)).findings[0].text
    assert not answer(flaps(1)).findings
    # A port that nobody uses is down from the start.
    assert not answer(IGC.format(1, 1, "Down") + NVRM).findings


@pytest.mark.parametrize(
    ("line", "is_failure"),
    [
        ("qede 0000:41:00.0: [qed_mcp_cmd:555]the MFW failed to respond to command 0x5000000", True),
        ("iwlwifi 0000:06:00.0: Error sending STATISTICS_CMD: time out after 2000ms.", False),
        ("snd_hda_intel 0000:01:00.1: CORB reset timeout#2, CORBRP = 65535", False),
    ],
)
def test_failures_of_unknown_meaning_are_quoted(answer, line, is_failure):
    diagnosis = words(answer(f"{NVRM}[ 7812.104512] {line}\n"))
    assert ("meaning is not known here" in diagnosis) == is_failure
    assert ("no errors of GPUs" in diagnosis) != is_failure


def test_links_outside_the_active_aggregator_of_a_bond(answer):
    active = "Active Aggregator Info:\n\tAggregator ID: 1\n"
    split = BOND.format(active) + LINK.format(1, "up", 1) + LINK.format(2, "up", 2)
    assert "eth2 has aggregator 2, the active one of bond0 is 1" in answer(split).findings[0].text
    none = BOND.format("bond bond0 has no active aggregator\n") + LINK.format(1, "up", "N/A")
    assert "bond0 has no active aggregator" in answer(none).findings[0].text
    down = BOND.format(active) + LINK.format(1, "up", 1) + LINK.format(2, "down", 1)
    assert "eth2 is down in bond0" in answer(down).findings[0].text
    assert not answer(BOND.format(active) + LINK.format(1, "up", 1) + LINK.format(2, "up", 1)).findings


def test_lost_datagrams_of_intervals_without_summary(answer):
    row = "[  5]   {}.00-{}.00   sec  3.9 MBytes  33.0 Mbits/sec  0.116 ms  {}/1000 ({}%)\n"
    heading = "[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n"
    text = heading + "".join(row.format(n, n + 1, lost, lost / 10) for n, lost in enumerate((0, 400, 500)))
    diagnosis = words(answer(text))
    assert "30 % of the datagrams lost" in diagnosis and "a test over UDP lost datagrams" in diagnosis


def test_apostrophes_of_pages_are_those_of_programs(answer):
    text = (
        "fabric manager NVIDIA GPU driver interface version 550.90.07 don{}t match with driver version 550.107.02. "
        "Please update with matching NVIDIA driver package.\n"
    )
    assert [one.text for one in answer(text.format("\u2019")).findings] == [
        one.text for one in answer(text.format("'")).findings
    ]
    assert answer(text.format("'")).findings


def test_the_timeout_of_a_collective_precedes_the_watchdog_that_it_stops(answer):
    diagnosis = answer(
        "[rank7]:[E626 05:14:36.393 ProcessGroupNCCL.cpp:1743] [PG ID 0 Rank 7] ProcessGroupNCCL's watchdog got stuck for "
        "480 seconds without making progress in monitoring enqueued collectives.\n"
        "[rank2]:[E626 05:06:30.929 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=120049, OpType=_ALLGATHER_BASE, Timeout(ms)=1800000) ran for 1800065 milliseconds\n"
    )
    assert diagnosis.findings[0].text.startswith("a collective operation did not end in time")


def test_an_error_that_names_itself_replaces_the_general_one(answer):
    diagnosis = answer(
        "[rank2]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, unhandled cuda error\n"
        "[rank2]: ncclUnhandledCudaError: Call to CUDA function failed.\n"
        "[rank2]: Last error:\n[rank2]: Cuda failure 1 'invalid argument'\n"
    )
    assert "failure 1 'invalid argument'" in diagnosis.findings[0].text


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        # An empty slot at the start, a reset that a user asked for, an integrated GPU, a driver of another function.
        ("[    1.500000] pcieport 0000:00:1d.0: pciehp: Slot(66): Link Down\n", ""),
        (RESET, "reset it, with success"),
        (
            "[    0.360000] DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x0 [fault reason 0x01]\n",
            "inte",
        ),
        ("[    3.000000] nvidia-gpu 0000:01:00.3: i2c timeout error e0000000\n", "no errors of GPUs"),
        ("[    3.000000] amdgpu 0000:02:00.0: kfd not supported on this ASIC\n", "does not support a GPU"),
    ],
)
def test_lines_that_state_no_fault(answer, lines, word):
    diagnosis = answer(f"{NVRM}{lines}")
    assert not diagnosis.findings and word in words(diagnosis)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("vfio-pci 0000:43:00.0: AMD_VEGA20: psp mode1 reset failed", "does not come back after a reset"),
        ("i915 0000:01:00.0: [drm] Small BAR device", "Resizable BAR is off"),
        ("amdgpu 0000:c5:00.0: amdgpu: GPU reset(5) succeeded!", "was reset by its driver 5 times"),
        ("[drm] GPU HANG: ecode 9:0:0x85dffffb, in ffmpeg [7205]", "a GPU: error of its driver: GPU HANG"),
        ("amdgpu 0000:05:00.0: amdgpu: get invalid ip discovery binary signature", "invalid ip discovery"),
        (
            "NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db4) is not supported by open nvidia.ko",
            "the open modules",
        ),
        (
            "RTL8211F mdio-0:00: Downshift occurred from negotiated speed 1Gbps to actual speed 100Mbps, check",
            "100Mbps",
        ),
    ],
)
def test_further_states_of_devices(answer, line, state):
    assert state in answer(f"{NVRM}[ 7812.104512] {line}\n").findings[0].text


def test_writes_of_iperf_are_no_repeated_segments(answer):
    text = (
        "Client connecting to node1, TCP port 5001\n"
        "[ ID] Interval        Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT        NetPwr\n"
        "[  3] 0.00-10.00 sec  11.0 GBytes  9.41 Gbits/sec  89767/0          3     1234K/1013 us  1161171\n"
    )
    assert "3 segments of TCP sent again" in words(answer(text)) and "89,767" not in words(answer(text))


def test_a_guess_of_pytorch_is_no_fault_without_a_failure(answer):
    guess = (
        "[rank0]:[W ProcessGroupNCCL.cpp:4115] using GPU 0 to perform barrier as devices used by this process are "
        "currently unknown.\n"
    )
    assert not answer(guess).findings
    timeout = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=BARRIER) ran for 600000 ms\n"
    assert len(answer(guess + timeout).findings) == 2


def test_an_interface_without_a_link_beside_another_one_is_no_fault(answer):
    settings = "Settings for {}:\n\tSpeed: {}\n\tLink detected: {}\n"
    unused = settings.format("ens1f1", "Unknown!", "no")
    assert answer(unused).findings
    assert not answer(settings.format("ens1f0", "100000Mb/s", "yes") + unused).findings


def after(*lines):
    return NVRM + "".join(f"[ {7000 + place}.000000] {line}\n" for place, line in enumerate(lines))


BOOT = "Linux version 6.8.0-45-generic (buildd@host)"


@pytest.mark.parametrize(
    "lines",
    [
        (
            "ena 0000:00:05.0 eth0: Keep alive watchdog timeout.",
            "ena 0000:00:05.0: Device reset completed successfully",
        ),
        ("igb 0000:02:00.0 eno1: PCIe link lost", BOOT),
        ("vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up", BOOT),
        (
            "vfio-pci 0000:01:00.0: AMD_VEGA20: psp mode1 reset failed",
            "vfio-pci 0000:01:00.0: AMD_VEGA20: reset result = 0",
        ),
        (
            "PHY mdio-0:00: Downshift occurred from negotiated speed 1Gbps to actual speed 100Mbps, check",
            "eth0: Link is Up",
        ),
        (
            "LustreError: 11-0: m1: operation obd_ping to node 10.0.0.88@o2ib failed: rc = -107",
            "Lustre: m1-MDT0: Connection restored to 10.0.0.88@o2ib",
        ),
        ("ccp 0000:47:00.1: SEV: failed to INIT error 0x1, rc -5",),
    ],
)
def test_states_end_with_a_recovery_or_a_boot(answer, lines):
    diagnosis = answer(after(*lines))
    assert not diagnosis.findings and "no fault is stated" in str(diagnosis.verdict)


def test_another_server_of_a_file_system_that_comes_back_is_no_recovery(answer):
    lost = "LustreError: 11-0: m1: operation obd_ping to node 10.0.0.88@o2ib failed: rc = -107"
    assert answer(after(lost, "Lustre: m1-MDT0: Connection restored to 10.0.0.99@o2ib")).findings
    assert answer(after(lost, "Lustre: m1-MDT0: Connection restored to 10.0.0.88@o2ib", lost)).findings


def test_errors_after_a_reset_that_succeeded_are_stated(answer):
    gpu = "amdgpu 0000:c5:00.0: amdgpu: "
    first = (f"{gpu}GPU reset begin!", f"{gpu}GPU reset(1) succeeded!")
    assert not answer(after(*first)).findings
    assert (
        "ring gfx_0.0.0 timeout"
        in answer(after(*first, f"{gpu}ring gfx_0.0.0 timeout, signaled seq=1")).findings[0].text
    )
    last = answer(after(*first, f"{gpu}GPU reset(2) succeeded!", f"{gpu}GPU reset(3) succeeded!"))
    assert "was reset by its driver 3 times" in last.findings[0].text


@pytest.mark.parametrize(
    "text",
    ["Thu Nov  6 11:48:01 2025 training already started\n", "[   12.345678] server is ready to accept connections\n"],
)
def test_other_logs_are_no_kernel_logs(causes_of_text, answer, text):
    with pytest.raises(InputError, match="no known program"):
        answer(text)


@pytest.mark.parametrize("stamp", ["Nov 06 11:48:01 n1 kernel: ", "[Thu Nov  6 11:48:01 2025] ", "[   31.500000] "])
def test_slots_without_a_device_are_no_fault(answer, stamp):
    assert not answer(f"{NVRM}{stamp}pcieport 0000:00:1d.0: pciehp: Slot(66): Link Down\n").findings


def test_all_datagrams_are_lost(answer):
    heading = "[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n"
    row = "[  5]   {}.00-{}.00   sec  0.0 MBytes  0.1 Mbits/sec  0.116 ms  1000/1000 (100%)\n"
    diagnosis = words(answer(heading + row.format(0, 1) + row.format(1, 2)))
    assert "100 % of the datagrams lost" in diagnosis and "a test over UDP lost datagrams" in diagnosis
