"""Machines in logs of NCCL whose lines start with a time."""

import pytest

from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.conftest import REPOSITORY


@pytest.mark.parametrize(
    "time", ["12:00:{:02d} ", "Jan 01 12:00:{:02d} host ", "I0101 12:00:{:02d}.123456 1 x.cc:12] "]
)
def test_a_time_before_each_line_changes_nothing(time):
    text = (REPOSITORY / "src" / "fabricast" / "sources" / "examples" / "nccl.log").read_text()
    stamped = "\n".join(time.format(number % 60) + line for number, line in enumerate(text.split("\n")))
    plain, other = (facts_of_text(one, "nccl.log").values(Quantity.TOPOLOGY) for one in (text, stamped))
    assert len(plain) == 1
    assert str(plain) == str(other)
