"""Damaged measurements: refused, or a part of the same values; never another value in silence."""

import pytest

from fabricast.core.facts import Content, Quantity
from fabricast.sources.formats import FORMATS
from fabricast.sources.reading import facts_of_text
from tests.unit.sources.test_damaged_descriptions import FOLDER, damages

FORMS = {
    one.program: one
    for one in FORMATS
    if one.example and one.content not in (Content.TOPOLOGY, Content.NETWORK, Content.CLUSTER)
}
#: Formats whose rows belong to the heading above: a lost heading cannot be proven.
HEADINGS = {"IMB", "BenchPress", "nodecomm", "nccl-tests"}


def values(facts):
    """Return the measured values of facts with what they are of."""
    found = set()
    for fact in (one for block in facts.blocks for one in block.facts):
        value = fact.value
        if fact.quantity is Quantity.COLLECTIVE:
            found |= {("row", str(value.operation), value.ranks, row.size_bytes, row.time_s) for row in value.rows}
        elif fact.quantity is Quantity.MESSAGE_TIME:
            found.add((value.path, value.processes, value.size_bytes, value.time_s, value.convention))
        elif fact.quantity is Quantity.RATE:
            found.add((str(fact.quantity), value.flows, value.total_bytes_per_s))
        elif fact.quantity in (Quantity.STAGED_RATE, Quantity.STAGED_RATE_BOTH_WAYS, Quantity.LATENCY):
            found.add((str(fact.quantity), fact.subject, value))
    return found


@pytest.mark.parametrize("name", FORMS)
def test_a_damaged_measurement_is_no_other_value_in_silence(name):
    path = FOLDER / FORMS[name].example
    text = path.read_text(encoding="utf-8")
    whole = values(facts_of_text(text, path.name))
    tried = refused = 0
    for damage, lines in damages(text.splitlines()):
        facts = facts_of_text("\n".join(lines), path.name)
        tried += 1
        if facts.problems or not facts.blocks:
            refused += 1
        elif not (name in HEADINGS and damage.startswith("without")):
            assert values(facts) <= whole, damage
    assert refused > 0, f"none of {tried} damages is an error"
