"""Tables of known messages: the example of each entry is read as this entry, and as no earlier one."""

import re

import pytest

from fabricast.core.errors import InputError
from fabricast.inputs.yaml_files import load_model
from fabricast.known_messages.table import MessageTable, message_table

TABLES = {name: message_table(name) for name in ("mpi", "nccl")}
PROBLEMS = [(name, problem) for name, table in TABLES.items() for problem in table.problems]


@pytest.mark.parametrize(("name", "problem"), PROBLEMS, ids=lambda one: getattr(one, "meaning", one)[:40])
def test_example_has_the_meaning_of_its_entry(name, problem):
    table = TABLES[name]
    message = table.message(problem.example)
    if name == "mpi" and not problem.is_assembled:
        assert message is not None, "no line of the table reads the example: add words and lines"
        assert any(word in problem.example for word in table.words)
    assert table.problem(message or problem.example) is problem, "an earlier problem has the message: place it before"


def test_lines_of_each_entry_are_searched_only_with_words():
    for table in TABLES.values():
        for one in (*table.lines, *table.problems):
            assert bool(one.words) == bool(one.lines), one
            assert all(re.compile(line).groups for line in one.lines), one


def test_an_entry_without_an_example_is_refused(tmp_path):
    path = tmp_path / "errors.yaml"
    path.write_text("problems:\n- says: 'lost'\n  meaning: a link is lost\n  remedy: check the cable\n")
    with pytest.raises(InputError, match="example"):
        load_model(path, MessageTable)
