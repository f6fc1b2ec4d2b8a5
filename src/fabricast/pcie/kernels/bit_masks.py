"""Compiled helpers for sets kept as the bits of a positive number, of up to 62 members."""

from __future__ import annotations

from fabricast.runtime.compilation import allocation_free

__all__ = ["bits", "lowest", "without_lowest"]

_PAIRS, _FOURS, _BYTES, _SUM = 0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101


@allocation_free(inline="always")
def bits(mask):
    """Count the bits of a number (Warren, Hacker's Delight, 5-1)."""
    pairs = mask - ((mask >> 1) & _PAIRS)
    fours = (pairs & _FOURS) + ((pairs >> 2) & _FOURS)
    return (((fours + (fours >> 4)) & _BYTES) * _SUM) >> 56


@allocation_free(inline="always")
def without_lowest(mask):
    """Return the set without its lowest member."""
    return mask & (mask - 1)


@allocation_free(inline="always")
def lowest(mask):
    """Return the place of the lowest bit."""
    return bits((mask ^ (mask - 1)) >> 1)
