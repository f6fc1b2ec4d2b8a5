"""Sets kept as bits, against Python's whole numbers."""

from hypothesis import given
from hypothesis import strategies as st

from fabricast.pcie.schedules.kernels.bit_masks import bits, lowest, without_lowest
from fabricast.runtime.compilation import njit


@njit(error_model="numpy")
def members(mask):
    """Count the members, and list them by taking the lowest one after the other."""
    count, found = bits(mask), [0]
    while mask != 0:
        found.append(lowest(mask))
        mask = without_lowest(mask)
    return count, found[1:]


@given(st.integers(0, 2**63 - 1))
def test_members_are_those_of_the_number(mask):
    assert members(mask) == (mask.bit_count(), [place for place in range(63) if mask >> place & 1])
