"""Cables of an InfiniBand network in the output of iblinkinfo, as causes and as notes."""

import pytest

SWITCH = "Switch: 0x0002c90200400001 MF0;leaf1:MSB7800/U1:\n"
LINE = '           3 {port:4d}[  ] ==( {state})==>       {lid}    1[  ] "node{lid} HCA-1" ({notes})\n'
FAST, SLOW = "4X      25.78125 Gbps Active/  LinkUp", "4X      14.0625 Gbps Active/  LinkUp"


def hosts(*states, notes=" "):
    """Return output of iblinkinfo of one switch with a host for each state of a link."""
    lines = [LINE.format(port=one, state=state, lid=10 + one, notes=notes) for one, state in enumerate(states, start=1)]
    return SWITCH + "".join(lines)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        (hosts(FAST, FAST, FAST), []),
        (hosts(FAST, SLOW, FAST), []),
        (hosts(FAST, "4X      10.0 Gbps (FDR10) Active/  LinkUp", FAST), []),
        (hosts(FAST, "4X      25.78125 Gbps Active/  LinkUp) (HOQ:16 VL_Stall:7"), []),
        (
            hosts(FAST, FAST, "4X      25.78125 Gbps Initialize/  LinkUp"),
            ["leaf1 port 3 to node13 HCA-1 port 1 is Initialize"],
        ),
        (
            hosts(FAST, FAST) + '           3   36[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n',
            [],
        ),
        (
            hosts("1X      25.78125 Gbps Active/  LinkUp", notes=" Could be 4X"),
            ["leaf1 port 1 to node11 HCA-1 port 1 runs at 1 x 25.78 Gbit/s, and could run at 4X"],
        ),
    ],
)
def test_slow_cables_are_causes(first, text, states):
    found = first(text)
    assert [one.text for one in found.findings] == [f"cable of {state}" for state in states]
    assert {one.cause for one in found.findings} <= {"network_port"}
    assert any(note.startswith("cables of hosts: ") for note in found.statements)


def test_a_port_of_a_host_without_a_link_is_a_cause(first):
    text = 'CA: node1 HCA-1:\n      0x0002c903000e0b71      2    1[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n'
    assert [one.text for one in first(text).findings] == ["node1 HCA-1 port 1 is Down (Polling)"]


def test_a_port_that_no_subnet_manager_configured_has_its_own_remedy(first):
    assert "opensm" in first(hosts(FAST, "4X      25.78125 Gbps Initialize/  LinkUp")).findings[0].remedy


def test_ends_of_cables_are_told_apart_in_lines_with_names(first):
    line = '0x{0}  "{1}"      {2}    {3}[  ] ==( {4})==>  0x0002c903000e0b72      9    {3}[  ] "MF0;spine1:MSB7800/U1" ( )\n'
    text = line.format(1, "node1 HCA-1", 4, 1, FAST) + line.format(2, "MF0;leaf1:MSB7800/U1", 5, 2, FAST)
    (note,) = (one for one in first(text).statements if "cables of hosts" in one)
    assert note.startswith("cables of hosts: 1 with 4 x 25.78 Gbit/s")


def test_a_cable_that_both_ends_list_is_named_once(first):
    text = (
        f'CA: node11 HCA-1:\n      0x0002c903000e0b71     11    1[  ] ==( {SLOW})==>       3    1[  ] "MF0;leaf1:MSB7800/U1" '
        "( Could be 25.78125 Gbps)\n"
    )
    found = first(text + hosts(SLOW, notes=" Could be 25.78125 Gbps"))
    assert [one.origin.rpartition(":")[2] for one in found.findings] == ["2"]


def test_lines_with_their_switch_are_read(first):
    line = f'0x0002c90200400001 "MF0;leaf1:MSB7800/U1"      3    2[  ] ==( {SLOW})==>  0x0002c903000e0b72      4    1[  ] "node2 HCA-1" ( Could be 25.78125 Gbps)\n'
    assert first(line).findings[0].text.startswith("cable of leaf1 port 2 to node2 HCA-1 port 1 runs at 4 x 14.06")
