"""Compiled pieces that several kernels of the study share: a hash for even draws, and a heap."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free

__all__ = ["mix", "pop", "push"]


@allocation_free(inline="always")
def mix(z):
    """Return the finaliser of splitmix64: a hash of 64 bits, the same on every machine."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@allocation_free()
def push(keys, items, size, key, item):
    """Put an item into a binary heap, smallest key first, ties by item; return the new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and items[parent] < item):
            break
        keys[child], items[child] = keys[parent], items[parent]
        child = parent
    keys[child], items[child] = key, item
    return size + 1


@allocation_free()
def pop(keys, items, size):
    """Take the first item, at index 0, out of a heap; return the new size."""
    size -= 1
    key, item = keys[size], items[size]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (keys[other] < keys[child] or (keys[other] == keys[child] and items[other] < items[child])):
            child = other
        if key < keys[child] or (key == keys[child] and item < items[child]):
            break
        keys[parent], items[parent] = keys[child], items[child]
        parent = child
    keys[parent], items[parent] = key, item
    return size
