"""Bandwidth tests of messages, compared with the rate of the ports that ibstat states."""

import pytest

PORT = (
    "CA '{card}'\n\tCA type: MT4123\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: LinkUp\n"
    "\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n"
)


def ports(*rates, state="Active"):
    """Return output of ibstat of cards with one port each."""
    return "".join(PORT.format(card=f"mlx5_{one}", rate=rate, state=state) for one, rate in enumerate(rates))


def perftest(mib_per_s, size=1 << 20):
    """Return output of ib_write_bw with one size."""
    return (
        "                    RDMA_Write BW Test\n"
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        f" {size}    5000             {mib_per_s:.2f}           {mib_per_s:.2f}     \t\t   0.021\n"
    )


def osu(mb_per_s):
    """Return output of osu_bw with one size."""
    return f"# OSU MPI Bandwidth Test v7.0\n# Size      Bandwidth (MB/s)\n4194304             {mb_per_s:.2f}\n"


@pytest.fixture
def verdict(first):
    """Return a function that returns the verdict and the causes of the diagnosis of texts."""

    def diagnose(*texts):
        found = first(*texts)
        return str(found.verdict), [one.cause for one in found.findings]

    return diagnose


def test_messages_that_fill_the_port_are_as_expected(verdict):
    # 23,500 MiB/s are 24.64 GB/s, of 25 GB/s.
    text, causes = verdict(perftest(23500), ports(200))
    assert text.endswith("ib_write_bw reach 24.6 GB/s (1 MiB), 99 % of the 200 Gbit/s of a port") and not causes
    assert text.startswith("within the expected range")


def test_messages_over_a_card_below_its_port_are_slow(verdict):
    text, causes = verdict(perftest(11700), ports(200))
    assert text.startswith("slower than expected: the fastest messages of ib_write_bw reach 12.3 GB/s (1 MiB), 49 %")
    assert causes == ["below_port_rate"]


def test_messages_that_may_be_within_a_node_are_doubtful(verdict):
    text, causes = verdict(osu(12000), ports(200))
    assert text.startswith("possibly slower than expected") and "if the processes are on different hosts" in text
    assert causes == ["below_port_rate"]


@pytest.mark.parametrize(
    ("messages", "listed"),
    [
        (osu(40000), ports(200)),
        (perftest(11700), ports(200, 400)),
        (perftest(11700), ports(200, state="Down")),
        (perftest(1000, size=1024), ports(200)),
    ],
    ids=["faster than the port", "ports with several rates", "no active port", "small messages only"],
)
def test_other_messages_are_not_compared_with_ports(verdict, messages, listed):
    text, causes = verdict(messages, listed)
    assert "of a port" not in text and "below_port_rate" not in causes


@pytest.mark.parametrize(
    ("state", "physical", "width", "speed", "words"),
    [
        ("Down", "Disabled", "4X", "10.0 Gbps", "is Down (Disabled)"),
        ("Active", "LinkUp", "1X", "10.0 Gbps", "runs at 1X, 4X is enabled"),
        ("Active", "LinkUp", "4X", "5.0 Gbps", ""),
        ("Active", "LinkUp", "4X", "10.0 Gbps", ""),
    ],
)
def test_ports_of_ibportstate(first, state, physical, width, speed, words):
    text = (
        f"CA PortInfo:\n# Port info: Lid 12 port 1\nLinkState:.......................{state}\n"
        f"PhysLinkState:...................{physical}\nLinkWidthEnabled:................1X or 4X\n"
        f"LinkWidthActive:.................{width}\nLinkSpeedEnabled:................2.5 Gbps or 5.0 Gbps or 10.0 Gbps\n"
        f"LinkSpeedActive:.................{speed}\n"
    )
    found = first(text)
    assert [one.text for one in found.findings] == ([f"Lid 12 port 1 {words}"] if words else [])


@pytest.mark.parametrize(("send", "receive", "is_slow"), [(2, 4, True), (4, 4, False)])
def test_lanes_that_omni_path_switches_off(first, send, receive, is_slow):
    port = "hfi1_0:1                           PortGID:0xfe80000000000000:0011\n   PortState:     Active\n"
    found = first(f"{port}   LinkWidthDnGrd ActTx: {send}  Rx: {receive}   En: 3,4\n")
    assert [one.cause for one in found.findings] == (["network_port"] if is_slow else [])


def test_network_cards_of_hosts_without_gpus_are_read_from_lspci(first):
    text = (
        "3a:00.0 PCI bridge: Intel Corporation Sky Lake-E PCI Express Root Port A (rev 04) (prog-if 00 [Normal decode])\n"
        "\tBus: primary=3a, secondary=3b, subordinate=3b, sec-latency=0\n"
        "\tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00\n"
        "\t\tLnkCap:\tPort #5, Speed 8GT/s, Width x16, ASPM not supported\n"
        "\t\tLnkSta:\tSpeed 8GT/s (ok), Width x{0} (ok)\n\n"
        "3b:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]\n"
        "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported\n"
        "\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x{0}\n"
    )
    narrow, wide = first(text.format(8)), first(text.format(16))
    assert "0000:3b:00.0 uses x8 of x16" in narrow.findings[0].text
    assert not wide.findings and "x16 at 16 GT/s in another slot" in " ".join(wide.statements)
    # Without its port, and in a virtual machine, the slot is unknown.
    card = text[text.index("3b:00.0") :]
    assert not first(card.format(8)).findings
    assert not first(text.format(8).replace("Intel Corporation Sky Lake-E", "Red Hat, Inc. QEMU")).findings


def test_ibstat_of_a_page_without_indentation_and_later_states(first):
    port = "CA 'mlx5_0'\nCA type: MT4123\nPort 1:\nState: {}\nPhysical state: {}\nRate: 100\nLink layer: InfiniBand\n"
    assert "1 x 100 Gbit/s" in " ".join(first(port.format("Active", "LinkUp")).statements)
    assert first(port.format("Down", "Polling")).findings[0].cause == "network_port"
    link = "link mlx5_7/1 subnet_prefix fe80:0000 lid 3403 sm_lid 1 lmc 0 state {} physical_state {}\n"
    assert not first(link.format("DOWN", "POLLING") + link.format("ACTIVE", "LINK_UP")).findings
    assert first(link.format("ACTIVE", "LINK_UP") + link.format("DOWN", "POLLING")).findings
