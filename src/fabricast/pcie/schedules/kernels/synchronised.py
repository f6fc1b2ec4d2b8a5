"""Compiled kernels of synchronised schedules, and of schedules that are symmetric to evaluated ones."""

from __future__ import annotations

from fabricast.runtime.compilation import njit


@njit
def synchronised_times(first_high, last_high, low_codes, high_codes, step_s, elapsed_s):
    """Fill `elapsed_s` for a range of `high` with the sums of step times of each schedule."""
    lows = low_codes.shape[0]
    steps = low_codes.shape[1]
    for high in range(first_high, last_high):
        base = high * lows
        for low in range(lows):
            total = 0.0
            for step in range(steps):
                total += step_s[low_codes[low, step] + high_codes[high, step]]
            elapsed_s[base + low] = total


@njit
def smallest_images(first_high, last_high, low_images, high_images, smallest, symmetry):
    """Compute the smallest image of each code over all symmetries, and the symmetry."""
    symmetries, lows = low_images.shape
    for high in range(first_high, last_high):
        base = high * lows
        for low in range(lows):
            smallest[base + low] = low_images[0, low] + high_images[0, high]
            symmetry[base + low] = 0
        for g in range(1, symmetries):
            for low in range(lows):
                image = low_images[g, low] + high_images[g, high]
                is_smaller = image < smallest[base + low]
                smallest[base + low] = image if is_smaller else smallest[base + low]
                symmetry[base + low] = g if is_smaller else symmetry[base + low]


@njit
def copy_rates(smallest, symmetry, places, numbers):
    """Copy the rates of each smallest image to its equivalent active sets."""
    for code in range(smallest.size):
        image = smallest[code]
        if image != code:
            for s in range(places.shape[1]):
                numbers[code, s] = numbers[image, places[symmetry[code], s]]


@njit
def copy_times(first_high, last_high, low_sends, high_sends, smallest, symmetry, low_images, high_images, elapsed_s):
    """Copy times to the schedules that were not run, from their images under symmetry."""
    lows = low_sends.size
    for high in range(first_high, last_high):
        base = high * lows
        for low in range(lows):
            sends = low_sends[low] + high_sends[high]
            if smallest[sends] != sends:
                g = symmetry[sends]
                elapsed_s[base + low] = elapsed_s[low_images[g, low] + high_images[g, high]]
