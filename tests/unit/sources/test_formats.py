"""Registry of formats: every format has an example that is read without problems."""

from importlib.resources import files

import pytest

from fabricast.core.facts import Quantity
from fabricast.sources.formats import FORMATS
from fabricast.sources.reading import facts_of_text, read

EXAMPLES = files("fabricast.sources") / "examples"


def read_example(one):
    return facts_of_text((EXAMPLES / one.example).read_text(), one.example)


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.program)
def test_each_format_reads_its_example(one):
    facts = read_example(one)
    assert not facts.problems
    (block,) = [block for block in facts.blocks if block.reader == one.reader and block.content is one.content]
    assert block.facts and all(fact.place.path == one.example for fact in block.facts)
    assert one.versions and one.command and one.sample


@pytest.mark.parametrize(
    "one", [one for one in FORMATS if not one.example.endswith((".csv", ".yaml", ".xml"))], ids=lambda one: one.program
)
def test_decoration_and_foreign_lines_change_no_fact(one):
    expected = [(fact.quantity, fact.subject, fact.place.line) for fact in read_example(one).of(*Quantity)]
    assert expected
    lines = (EXAMPLES / one.example).read_text().splitlines()
    text = "Dear all,\n" + "".join(f"[1,0]<stdout>:{line}\n" for line in lines)
    facts = facts_of_text(text, one.example)
    assert not facts.problems
    found = [(fact.quantity, fact.subject, max(fact.place.line - 1, 0)) for fact in facts.of(*Quantity)]
    assert found == expected


def test_each_example_belongs_to_a_format():
    assert {path.name for path in EXAMPLES.iterdir()} == {one.example for one in FORMATS}


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    path = tmp_path / "osu.txt"
    path.write_text(
        "# OSU MPI Bandwidth Test v7.0\n# Size      Bandwidth (MB/s)\n1048576  12000.11\n4194304  12340.11\n"
    )
    assert len(read([path, str(path)]).files) == 1
