"""Tests that values drawn as those of slides are the values that the claims test."""

import pytest

from fabricast.core.resources import published
from fabricast.figures.breakdown import STATED
from fabricast.results.claims import read_claims

CLAIMS = {
    ("injection", "hlp"): "breakdown_hlp_injection",
    ("injection", "pio_copy"): "breakdown_pio_injection",
    ("latency, I/O", "integrated_nic"): "breakdown_integrated_nic",
}


@pytest.mark.parametrize("chart, component", CLAIMS)
def test_framed_values_are_those_of_the_claims(chart, component):
    claims = {claim.claim: claim for claim in read_claims(published() / "claims")}
    text = next(text for name, _, text in STATED[chart] if name == component)
    claim = claims[CLAIMS[chart, component]]
    assert float(text.removeprefix("at least ")) == claim.value
    assert text.startswith("at least") == (claim.relation == "at_least")


def test_each_framed_value_has_a_claim():
    assert {(chart, name) for chart, entries in STATED.items() for name, _, _ in entries} == set(CLAIMS)
