"""Working memory of the models: what its rows hold, and the small functions that all steps use."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free

(
    UPSTREAM_ROUND_ROBIN,
    SOLO_CROSSING_PENALTY,
    COUPLING_MINIMUM,
    GROUP_DEMAND_MAXIMUM,
    GROUP_SPLIT_EQUAL,
    CROSSING_BONUS_LITERAL,
    ALL_CROSSING_PENALISED,
    ROOT_COMPLEX_IGNORED,
    NOT_WORK_CONSERVING,
    HEAD_OF_LINE,
) = range(10)
# Values of HEAD_OF_LINE.
FREEZE, TWO_ROUNDS, OFF = range(3)
OPTION_COUNT = 10

TINY = 1e-12
# Shares that differ by less are one.
TIE = 1.000000000001


# All working memory of one thread stands in two arrays.
# Rows of `values` (float64): by communication, by group, by link.
RHO, DEMAND_UP, FROZEN, WORST, LOWEST, REMAINING, DEMAND, FIXED, SHARE, CAPACITY, RESIDUAL, LIMIT, FULLNESS = range(13)
# Rows of `marks` (int64): by communication, by group, by link.
(
    ACTIVE,
    PAIR,
    STATE,
    CROSSING,
    COMPONENT,
    IS_FROZEN,
    GROUP_OF,
    PORT,
    CROSSES,
    CHOSEN,
    BUSY_UP,
    BUSY_DOWN,
    USERS,
    UNFROZEN,
    GROUPS,
    FRESH,
    LIMITING,
    HELD_BY,
    LONGEST,
    NARROW,
    FULL,
) = range(21)
# Planes of `users`: which communications use a link, by which input port each enters it and where
# it stands among the users of that port, where it goes next, whether it comes in pieces, its group.
MEMBER, INPUT, PLACE, NEXT, IN_PIECES, GROUP = range(6)
# Planes of `flows`: the rate of each user behind the link; demand, payload and cost of a packet, by group.
RATE, GROUP_DEMAND, GROUP_PAYLOAD, GROUP_COST = range(4)


@allocation_free
def fill(values, marks, spare, count):
    """Raise SHARE towards DEMAND for the chosen groups in equal steps; return what is left."""
    for _ in range(count):
        if spare <= TINY:
            break
        needy = 0
        step = np.inf
        for g in range(count):
            if marks[CHOSEN, g] and values[DEMAND, g] - values[SHARE, g] > TINY:
                needy += 1
                step = min(step, values[DEMAND, g] - values[SHARE, g])
        if needy == 0:
            break
        step = min(step, spare / needy)
        for g in range(count):
            if marks[CHOSEN, g] and values[DEMAND, g] - values[SHARE, g] > TINY:
                values[SHARE, g] += step
        spare -= step * needy
    return spare


@allocation_free
def group_members(link, users, values, marks, rate, demand_maximum):
    """Group the communications on a link by input port; return how many groups there are."""
    count = 0
    for k in range(marks[USERS, link]):
        c = np.uint32(users[MEMBER, link, k])
        entry = users[INPUT, link, k]
        g = count
        if entry >= 0:
            for other in range(count):
                if marks[PORT, other] == entry:
                    g = other
                    break
        if g == count:
            marks[PORT, g] = entry
            values[DEMAND, g] = 0.0
            values[FIXED, g] = 0.0
            marks[CROSSES, g] = 0
            count += 1
        marks[GROUP_OF, k] = g
        if demand_maximum:
            values[DEMAND, g] = max(values[DEMAND, g], values[rate, c])
        else:
            values[DEMAND, g] += values[rate, c]
        if marks[IS_FROZEN, c]:
            values[FIXED, g] += values[FROZEN, c]
        marks[CROSSES, g] |= marks[CROSSING, c]
    return count


@allocation_free
def load(link, users, values, marks, rate):
    """Sum of the rates on a link."""
    total = 0.0
    for k in range(marks[USERS, link]):
        total += values[rate, np.uint32(users[MEMBER, link, k])]
    return total
