"""The XML of ``nvidia-smi`` states what its text states."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text

_EXAMPLES = Path(__file__).parents[3] / "src/fabricast/sources/examples"


def _states(xml: str) -> list[str]:
    return [fact.value for fact in facts_of_text(xml, "gpus.xml").of(Quantity.GPU_STATE)]


@pytest.fixture
def example() -> str:
    return (_EXAMPLES / "nvidia_smi_q.xml").read_text().replace("312", "0").replace(">Active<", ">Not Active<")


@pytest.mark.parametrize(
    ("element", "healthy", "value", "state"),
    [
        ("gpu_recovery_action", "None", "Drain and Reset", "recovery action 'Drain and Reset'"),
        ("sram_threshold_exceeded", "No", "Yes", "SRAM Threshold Exceeded is Yes"),
        ("remapped_row_failure", "No", "Yes", "Remapped Rows: Remapping Failure Occurred"),
        ("dram_uncorrectable", "0", "7", "7 uncorrectable ECC errors"),
        ("replay_counter", "0", "5000", "5000 PCIe replays"),
        ("clocks_event_reason_hw_slowdown", "Not Active", "Active", "HW Slowdown is active"),
    ],
)
def test_a_fault_in_an_element_is_a_state(example, element, healthy, value, state):
    line = f"<{element}>{healthy}</{element}>"
    assert line in example
    assert not any(state in one for one in _states(example))
    assert any(state in one for one in _states(example.replace(line, line.replace(f">{healthy}<", f">{value}<"), 1)))


def test_the_links_of_the_text_are_those_of_the_xml():
    """The examples describe one machine: addresses, models, generations and widths agree."""

    def links(name):
        quantities = (Quantity.GPU_ADDRESS, Quantity.GPU_MODEL, Quantity.LINK_GENERATION, Quantity.CURRENT_WIDTH)
        facts = facts_of_text((_EXAMPLES / name).read_text(), name)
        return {(fact.quantity, fact.subject, fact.value) for one in quantities for fact in facts.of(one)}

    assert links("nvidia_smi_q.xml") == links("nvidia_smi_q.txt")
    assert len(links("nvidia_smi_q.xml")) == 8


def test_a_fact_has_the_line_of_its_element(example):
    widths = facts_of_text(example, "gpus.xml").of(Quantity.CURRENT_WIDTH)
    width = next(fact for fact in widths if fact.value == 4)
    assert "<current_link_width>4x<" in example.splitlines()[width.place.line - 1]


@pytest.mark.parametrize("health", ["<bandwidth>Degraded</bandwidth>", "<route_unhealthy>True</route_unhealthy>"])
def test_an_unhealthy_fabric_is_a_state(example, health):
    fabric = f"<fabric><state>Completed</state><status>Success</status><health>{health}</health></fabric></gpu>"
    assert any("fabric health" in one for one in _states(example.replace("</gpu>", fabric, 1)))


def test_two_hosts_are_told_apart(example):
    lines = [f"{host}: {line}" for host in ("node01", "node02") for line in example.splitlines()]
    facts = facts_of_text("\n".join(lines), "gpus.xml").of(Quantity.CURRENT_WIDTH)
    assert {(fact.host, fact.value) for fact in facts} == {(host, x) for host in ("node01", "node02") for x in (4, 16)}


def test_the_last_report_of_a_loop_is_read(example):
    """`nvidia-smi -q -x -l` appends documents; an unfinished last one is not used."""
    later = example.replace("<gpu_recovery_action>None<", "<gpu_recovery_action>Reset<")
    states = facts_of_text(example + later + later[:900]).of(Quantity.GPU_STATE)
    place = next(fact.place.line for fact in states if "recovery action 'Reset'" in fact.value)
    assert place > len(example.splitlines())


def test_a_cut_document_states_what_stands_before_its_end(example):
    lines = example.splitlines()
    before = next(number for number, line in enumerate(lines) if "<ecc_errors>" in line)
    facts = facts_of_text("\n".join(lines[:before]), "gpus.xml")
    assert len(list(facts.of(Quantity.GPU_MODEL))) == 1
    (problem,) = facts.files[0].blocks[0].problems
    assert "only the elements before this line are read" in str(problem)
