"""Tests of bit-set intrinsics against Python integers."""

from hypothesis import given
from hypothesis import strategies as st

from fabricast.pcie.schedules.kernels.bit_masks import bits, lowest, without_lowest
from fabricast.runtime.compilation import njit


@njit(error_model="numpy")
def members(mask):
    """Return the number of members and the members in ascending order."""
    count, found = bits(mask), [0]
    while mask != 0:
        found.append(lowest(mask))
        mask = without_lowest(mask)
    return count, found[1:]


@given(st.integers(0, 2**63 - 1))
def test_members_equal_bits_of_integer(mask):
    assert members(mask) == (mask.bit_count(), [place for place in range(63) if mask >> place & 1])
