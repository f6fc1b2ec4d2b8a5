"""Messages of MPI and networks: files of one test compared with each other, and protocols that begin too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, size_text
from fabricast.diagnosis.weights import CONTRADICTION, SYMPTOM

__all__ = ["LATE_SWITCH_REMEDY", "count_of_files", "late_rendezvous", "slow_message_files"]

#: Ratios of times to the shortest of the other files above which a file is slow: of large messages, and of small ones.
_SLOW, _LATE = 1.2, 1.3
#: Sizes in bytes from which rates decide, and up to which latencies do.
_LARGE, _SMALL = 2.0**16, 1024.0
_MOST_NAMES = 8
#: Number of sizes from which protocols are searched, and of sizes that each has.
_FEWEST_SIZES, _FEWEST_OF_PROTOCOL = 8, 3
_CHECK_FILE = (
    "compare the hosts of these files: rate and width of ports ('ibstat', 'lspci -vv'), binding of processes to the "
    "socket of the card, power saving"
)
#: Remedy, before the size of a threshold.
LATE_SWITCH_REMEDY = "lower the threshold of the protocol (UCX_RNDV_THRESH, I_MPI_EAGER_THRESHOLD) to"
#: Times of one test: those of each file by size.
_Times = dict[str, dict[float, Fact]]


def count_of_files(facts: Facts) -> int:
    """Return the number of files with times of messages."""
    return len({fact.place.path for fact in facts.of(Quantity.MESSAGE_TIME)})


def _tests(facts: Facts) -> list[_Times]:
    """Return the times of each test with the same number of processes."""
    tests: dict[tuple[object, ...], _Times] = {}
    for fact in facts.of(Quantity.MESSAGE_TIME):
        one = fact.value
        of_file = tests.setdefault((one.path, one.convention, one.processes), {}).setdefault(fact.place.path, {})
        of_file.setdefault(one.size_bytes, fact)
    return list(tests.values())


def slow_message_files(facts: Facts) -> Iterator[Finding]:
    """Yield the files whose messages are slower than the same test in the fastest other file."""
    for files in _tests(facts):
        if len(files) < 2:
            continue
        common = set.intersection(*(set(of_file) for of_file in files.values()))
        large, small = max(common, default=0.0), min(common, default=np.inf)
        slow = _slow_files(files, large, _SLOW) if large >= _LARGE else []
        if slow:
            yield _finding(files, slow, large, "reach", SYMPTOM + 1)
        late = [one for one in _slow_files(files, small, _LATE) if one not in slow] if small <= _SMALL else []
        if late:
            yield _finding(files, late, small, "last", SYMPTOM + 0.5)


def _slow_files(files: _Times, size: float, limit: float) -> list[str]:
    times = {name: float(of_file[size].value.time_s) for name, of_file in files.items()}
    fastest = min(times.values())
    return [name for name, time_s in times.items() if time_s > limit * fastest]


def _finding(files: _Times, slow: Sequence[str], size: float, verb: str, weight: float) -> Finding:
    """Return the finding about slow files, with the worst of them as evidence."""
    others = [name for name in files if name not in slow]
    worst = max(slow, key=lambda name: files[name][size].value.time_s)
    named = (
        f"{', '.join(slow[:_MOST_NAMES])}{f' and {len(slow) - _MOST_NAMES} more' if len(slow) > _MOST_NAMES else ''}"
    )
    test, text = files[worst][size].value.path, _in_rate if verb == "reach" else _in_time
    words = (
        f"{named}: messages of {test} of {size_text(size)} {verb} {text(files, slow, size)}, in the other "
        f"{'file' if len(others) == 1 else f'{len(others)} files'} {text(files, others, size)}"
    )
    cause = "slow_messages" if verb == "reach" else "late_messages"
    return Finding(cause, words, _CHECK_FILE, weight, origin=str(files[worst][size].place))


def _in_rate(files: _Times, names: Sequence[str], size: float) -> str:
    facts = [files[name][size].value for name in names]
    rates = [size * (one.processes or 1) / one.time_s / 1e9 for one in facts]
    return f"{' to '.join(dict.fromkeys(f'{one:.3g}' for one in (min(rates), max(rates))))} GB/s"


def _in_time(files: _Times, names: Sequence[str], size: float) -> str:
    times = [files[name][size].value.time_s for name in names]
    return " to ".join(dict.fromkeys(duration_text(one) for one in (min(times), max(times))))


def late_rendezvous(facts: Facts) -> Iterator[Finding]:
    """Yield files whose messages would be faster with the protocol of larger ones."""
    for files in _tests(facts):
        for of_file in files.values():
            finding = _late_rendezvous(of_file)
            if finding is not None:
                yield finding
                return


def _late_rendezvous(of_file: Mapping[float, Fact]) -> Finding | None:
    from fabricast.maxrate.protocols import ProtocolRegressor, late_switch  # slow to import: scikit-learn

    size = np.array(sorted(of_file))
    first = of_file[size[0]].value
    if size.size < _FEWEST_SIZES or first.convention != "one_way" or first.processes not in (None, 1):
        return None
    time_s = np.array([of_file[one].value.time_s for one in size])
    split = ProtocolRegressor("postal", fewest_sizes=_FEWEST_OF_PROTOCOL).fit(
        np.column_stack([size, np.ones_like(size)]), time_s
    )
    found = late_switch(split, size)
    if found is None:
        return None
    text = (
        f"messages of {size_text(found.from_bytes)} to {size_text(found.to_bytes)} would be faster with the protocol "
        f"of larger ones, at {size_text(found.to_bytes)} {found.factor:.2f} times: it begins too late"
    )
    remedy = f"{LATE_SWITCH_REMEDY} {size_text(found.from_bytes)}"
    return Finding("late_rendezvous", text, remedy, CONTRADICTION - 1, origin=str(of_file[found.to_bytes].place))
