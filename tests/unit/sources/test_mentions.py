"""Lines that only mention a program, an interface or a GPU, and outputs that look alike, state no fault."""

from __future__ import annotations

import pytest

from fabricast.core.facts import Quantity
from fabricast.inputs.gpus import gpus_named_in
from fabricast.sources.reading import facts_of_text

CAUSES = (Quantity.CAUSE, Quantity.GPU_STATE)
LINKS = """LnkSta: Speed 2.5GT/s (downgraded), Width x0 (downgraded)
LnkSta: Speed 8GT/s (downgraded), Width x4 (downgraded)
LnkSta: Speed 8GT/s (ok), Width x4 (ok)
LnkSta: Speed 16GT/s, Width x16
"""
NETPERF = """MIGRATED TCP STREAM TEST from 0.0.0.0 port 0 AF_INET to 10.0.0.2 () port 0 AF_INET
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^6bits/sec
 87380  16384  16384    10.00    9410.12
MIGRATED UDP STREAM TEST from 0.0.0.0 port 0 AF_INET to 10.0.0.2 () port 0 AF_INET
bytes   bytes    secs            #      #   10^6bits/sec
212992   65507   10.00      180000      0    9433.10
MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 port 0 AF_INET to 10.0.0.2 () port 0 AF_INET
16384 131072 1 1 10.00 31234.12
"""


def test_an_empty_slot_and_a_narrow_device_are_no_faults():
    assert not any(facts_of_text(LINKS).of(Quantity.CAUSE))


def test_a_narrow_link_without_a_device_of_its_width_is_a_fault():
    assert any(facts_of_text(LINKS.replace("8GT/s (ok), Width x4", "8GT/s (ok), Width x8")).of(Quantity.CAUSE))


def test_rates_of_requests_are_no_rates_of_a_stream():
    rates = [fact.value for fact in facts_of_text(NETPERF).of(Quantity.TCP_RATE)]
    assert rates == [pytest.approx(9.41012)]


@pytest.mark.parametrize(
    "text",
    [
        "Open MPI 4.1.5, configured with --with-ucx=/opt/ucx --with-cuda --without-verbs\n",
        "Somebody told me to look at ethtool -S eth0\nNote: rx_discards_phy: 500000\n",
        "0 * * * * ethtool -S eth0 | grep err\nTraceback (most recent call last):\n",
        "Cloning into 'nccl'...\nssh: Could not resolve hostname github.com: Name or service not known\n",
        "vlc[1]: segfault at 0 ip 00007f sp 00007f error 4 in libmpiv.so[7f00+1000]\n",
    ],
)
def test_a_mention_is_no_fault(text):
    facts = facts_of_text(text)
    assert not any(fact for quantity in CAUSES for fact in facts.of(quantity))


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("whether the L2 cache limits these copies", set()),
        ("GeForce NOW lost 4090 packets on rack L4", set()),
        ("10.0.0.5070 with RX errors", set()),
        ("eight MI50s and 2x L4", {"mi50", "l4"}),
        ("two RTX 4090s", {"4090"}),
    ],
)
def test_words_of_other_trades_are_no_gpus(sentence, names):
    assert gpus_named_in(sentence) == names


def test_a_window_that_the_kernel_cannot_assign_to_an_instinct_gpu_is_stated():
    text = (
        "[    1.0] pci 0000:c1:00.0: [1002:740f] type 00 class 0x038000\n"
        "[    1.2] pci 0000:c1:00.0: BAR 0: failed to assign [mem size 0x1000000000 64bit pref]\n"
    )
    assert any(facts_of_text(text).of(Quantity.GPU_STATE)) or any(facts_of_text(text).of(Quantity.CAUSE))


def test_a_gpu_listed_before_its_port_has_a_narrow_link():
    text = (
        "$ sudo lspci -vvv -s 3b:00.0 | grep -E 'LnkCap|LnkSta'\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L0s L1\n"
        "\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)\n"
        "$ sudo lspci -vvv -s 3a:00.0 | grep -E 'LnkCap|LnkSta'\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x8, ASPM L1\n"
        "\t\tLnkSta:\tSpeed 16GT/s, Width x8\n"
    )
    causes = [fact.value for fact in facts_of_text(text).of(Quantity.CAUSE)]
    assert causes == ["the link of 3b:00.0 uses x8 of x16: its port has no more lanes"]


def test_filtered_counters_below_a_quoted_command_are_read():
    assert facts_of_text("`ethtool -S enp1s0f0 |grep prio`\n```\n     rx_prio0_bytes: 88034564\n```\n").blocks
