"""Cables of an InfiniBand network in the output of iblinkinfo, as causes and as notes."""

import pytest

import fabricast as fc

SWITCH = "Switch: 0x0002c90200400001 MF0;leaf1:MSB7800/U1:\n"
LINE = '           3 {port:4d}[  ] ==( {state})==>       {lid}    1[  ] "node{lid} HCA-1" ({notes})\n'
FAST, SLOW = "4X      25.78125 Gbps Active/  LinkUp", "4X      14.0625 Gbps Active/  LinkUp"


def hosts(*states, notes=" "):
    """Return output of iblinkinfo of one switch with a host for each state of a link."""
    lines = [LINE.format(port=one, state=state, lid=10 + one, notes=notes) for one, state in enumerate(states, start=1)]
    return SWITCH + "".join(lines)


@pytest.fixture
def first(tmp_path):
    """Return a function that writes a text and returns its diagnosis."""

    def diagnose(text):
        path = tmp_path / "links.txt"
        path.write_text(text)
        return fc.diagnose(path)

    return diagnose


@pytest.mark.parametrize(
    ("text", "states"),
    [
        (hosts(FAST, FAST, FAST), []),
        (hosts(FAST, SLOW, FAST), ["node12 HCA-1 port 1 runs at 4 x 14.06 Gbit/s, most others at 103.1 Gbit/s in all"]),
        (hosts(FAST, SLOW), []),
        (
            hosts(FAST, FAST, "4X      25.78125 Gbps Initialize/  LinkUp"),
            ["node13 HCA-1 port 1 is Initialize, and not Active"],
        ),
        (
            hosts(FAST, FAST) + '           3   36[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n',
            [],
        ),
        (
            hosts("1X      25.78125 Gbps Active/  LinkUp", notes=" Could be 4X"),
            ["node11 HCA-1 port 1 runs at 1 x 25.78 Gbit/s, and could run at 4X"],
        ),
    ],
)
def test_slow_cables_are_causes(first, text, states):
    found = first(text)
    assert [one.text for one in found.findings] == [
        f"cable of switch leaf1 port {state[5:6]} to {state}" for state in states
    ]
    assert {one.cause for one in found.findings} <= {"network_port"}
    assert any(note.startswith("cables of hosts: ") for note in found.statements)


def test_a_cable_that_both_ends_list_is_named_once(first):
    text = (
        f'CA: node11 HCA-1:\n      0x0002c903000e0b71     11    1[  ] ==( {SLOW})==>       3    1[  ] "MF0;leaf1:MSB7800/U1" '
        "( Could be 25.78125 Gbps)\n"
    )
    found = first(text + hosts(SLOW, notes=" Could be 25.78125 Gbps"))
    assert [one.origin.rpartition(":")[2] for one in found.findings] == ["2"]


def test_lines_with_their_switch_are_read(first):
    line = f'0x0002c90200400001 "MF0;leaf1:MSB7800/U1"      3    2[  ] ==( {SLOW})==>  0x0002c903000e0b72      4    1[  ] "node2 HCA-1" ( Could be 25.78125 Gbps)\n'
    assert (
        first(line).findings[0].text.startswith("cable of switch leaf1 port 2 to node2 HCA-1 port 1 runs at 4 x 14.06")
    )
