"""Messages of MPI and networks: files of one test compared with each other, and protocols that begin too late."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.core.facts import Fact, Facts, Place, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, size_text
from fabricast.core.short_text import listed
from fabricast.diagnosis.commands import different_commands
from fabricast.diagnosis.curves import longer_sizes
from fabricast.diagnosis.weights import CONTRADICTION, MINOR, SYMPTOM
from fabricast.maxrate.message_times import OPERATION
from fabricast.maxrate.models import CONVENTIONS

if TYPE_CHECKING:
    from fabricast.maxrate.protocols import LateSwitch

#: Ratios of times to the shortest of all files above which a file is slow: of the largest messages, and of others.
_SLOW, _LATE = 1.2, 1.3
#: Number of late sizes that are no scatter, though none is beside another.
_OFTEN = 4
#: Ratio of alike times.
_ALIKE = 1.1
#: Ratio that is no scatter at the last size, and number of sizes below which each counts.
_FAR, _FEW_SIZES = 1.5, 4
#: Ratio to the time of a larger size of the same operation above which a size is named.
_LONGER = 2.0
#: Size in bytes from which rates decide, and from which those of files that end early show an agreement.
_LARGE, _SHOWS_RATES = 2.0**16, 2.0**12
_MOST_NAMES = 8
#: Share of the highest rate of a file below which the rate of its largest messages is named.
_FALLS = 0.5
#: Ratio of the times of small messages from which two files are of different paths, and difference in s of latencies
#: that switches between hosts may explain.
_OTHER_PATH, _SWITCHES_S = 2.0, 0.6e-6
_DISTANCE = "count the switches between these hosts, each of which costs 0.1 to 0.3 us"
#: Number of sizes from which protocols are searched, and of sizes that each has.
_FEWEST_SIZES, _FEWEST_OF_PROTOCOL = 8, 3
#: Largest size in bytes of small messages, and one-way time in s below which no network is.
_SMALL, _WITHIN_HOST_S = 64.0, 0.5e-6
#: Ratio of times from which a larger size shows another protocol, and the smallest size in bytes of such a change.
_FASTER, _SMALLEST_OF_PROTOCOLS = 1.25, 2.0**11
#: Number of alike tables of an operation that are of one number of processes.
_FEWEST_EQUAL = 3
#: Number of files from which one differs from alike others, its ratio to the fastest, and the multiple of their spread.
_FEWEST_ALIKE, _ODD, _TIMES_SPREAD = 4, 1.06, 3.0
_CHECK_FILE = (
    "compare the hosts of these files: rate and width of ports ('ibstat', 'lspci -vv'), binding of processes to the "
    "socket of the card, power saving"
)
_COMPARE_PROTOCOLS = (
    "smaller and larger messages are alike: compare the protocols, their thresholds (UCX_RNDV_THRESH, "
    "I_MPI_EAGER_THRESHOLD, UCX_PROTO_INFO=y) and the versions of the libraries"
)
_CHECK_TABLE = "compare what differs between the runs: versions, settings, hosts, and whether buffers are in GPU memory"
#: Ratio of the rates before and after a change of protocol, and largest size in bytes before it.
_DROP, _LARGEST_OF_CHANGE = 1.5, 2.0**18
#: Ratio of the times of neighbouring small sizes that no protocol explains, and least time in s of the longer one.
_STEP, _LONG_S = 20.0, 2e-4
#: Number of sizes to which protocols are fitted.
_MOST_SIZES = 64
#: Number of larger sizes that show a lasting change, and time in s that a repetition after a loss needs at least.
_LASTING, _TIMEOUT_S = 2, 5e-3
_CHECK_LOSSES = (
    "read the counters of the ports before and after a run ('perfquery', 'rdma statistic', 'ethtool -S'), on RoCE "
    "check PFC, ECN and the MTU; run the test between pairs of hosts"
)
_OTHER_PROTOCOL = (
    "raise the threshold of the protocol of larger messages (UCX_RNDV_THRESH, I_MPI_EAGER_THRESHOLD), or choose "
    "another (UCX_RNDV_SCHEME; UCX_PROTO_INFO=y prints the choices); for GPU memory check GPUDirect RDMA and gdrcopy"
)
_CHECK_ALGORITHM = (
    "run these sizes again; if it stays, another algorithm serves them: compare those of this operation "
    "(I_MPI_ADJUST_*, MPICH's *_INTRA_ALGORITHM, coll_tuned_*_algorithm of Open MPI)"
)
_UNKNOWN_PROCESSES = "; the tables state no number of processes, on which the times depend"
#: Size in bytes below which a change of protocol gains fractions of a microsecond.
_SMALLEST_OF_LATE = 256
#: What small messages between GPUs pass that large ones do not.
_SMALL_ON_GPU = (
    "compare the path of small messages between GPUs (GPUDirect RDMA, GDRCopy) with it switched off: "
    "UCX_IB_GPU_DIRECT_RDMA=n, with openib --mca btl_openib_want_cuda_gdr 0"
)
#: Remedy, before the size of a threshold.
LATE_SWITCH_REMEDY = "lower the threshold of the protocol (UCX_RNDV_THRESH, I_MPI_EAGER_THRESHOLD) to"
#: Words of the names of files that may be hosts, and least number of files whose names are compared.
_WORD, _FEWEST_NAMES = re.compile(r"[A-Za-z]+-?\d+"), 2
#: Programs that print each size once in a table.
_EACH_SIZE_ONCE = ("OSU", "perftest", "IMB")
#: Programs of OSU of one pair and of several.
_PROGRAMS = {
    "osu_bandwidth": ("osu_bw", "osu_mbw_mr"),
    "osu_bidirectional": ("osu_bibw", "osu_bibw"),
    "osu_latency": ("osu_latency", "osu_multi_lat"),
}
#: Times of one test: those of each file, or of each table of a file with several ones, by size.
_Times = dict[str, dict[float, Fact]]


def count_of_files(facts: Facts) -> int:
    """Return the number of files with times of messages."""
    return len({fact.place.path for fact in facts.of(Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME)})


def _tests(facts: Facts) -> list[_Times]:
    """Return the times of each test with the same number of processes."""
    tests: dict[tuple[object, ...], _Times] = {}
    names: dict[tuple[object, ...], str] = {}
    for fact in facts.of(Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME):
        one = fact.value
        # The times of an unknown number of pairs are compared with no other file.
        alone = fact.place.path if _lacks_pairs(fact) else ""
        # From host to GPU and back, the path is one; between GPUs or hosts, it is another.
        test = (one.path, one.convention, one.processes, *sorted(one.buffers.split()), alone)
        tables = tests.setdefault(test, {})
        source = f"{fact.place.path} ({fact.host})" if fact.host else fact.place.path
        name = names.setdefault((*test, source), source)
        if fact.program in _EACH_SIZE_ONCE and one.size_bytes in tables.get(name, {}):
            # Another table in the same file: all of them are named by their lines.
            name = names[*test, source] = str(fact.place)
            if source in tables:
                first = tables.pop(source)
                tables[str(min(first.values(), key=lambda one: one.place.line).place)] = first
        tables.setdefault(name, {}).setdefault(one.size_bytes, fact)
    return [_between_hosts(files) for files in tests.values()]


def _between_hosts(files: _Times) -> _Times:
    """Return the files of a test without those whose messages stay within a host, unless all do."""
    return {name: of_file for name, of_file in files.items() if not _is_within_host(of_file)} or files


def _is_within_host(of_file: Mapping[float, Fact]) -> bool:
    """Return whether the latency of a file is below that of any network."""
    first = of_file[min(of_file)].value
    return (
        first.convention in ("one_way", "round_trip")
        and first.size_bytes <= _SMALL
        and first.processes in (None, 1)
        and first.time_s < _WITHIN_HOST_S * CONVENTIONS[first.convention]
    )


def messages_within_hosts(facts: Facts) -> Iterator[str]:
    """Yield the files whose messages are too short for a network."""
    smallest: dict[str, Fact] = {}
    for fact in facts.of(Quantity.MESSAGE_TIME):
        known = smallest.setdefault(fact.place.path, fact)
        smallest[fact.place.path] = min(known, fact, key=lambda one: float(one.value.size_bytes))
    for path, fact in smallest.items():
        if _is_within_host({fact.value.size_bytes: fact}):
            yield (
                f"{path}: messages of {size_text(fact.value.size_bytes)} last {duration_text(fact.value.time_s)}, as "
                "between processes of one host, and not over a network"
            )


def _without_short(files: _Times) -> _Times:
    """Return the files of a test whose rates are compared: not those that end early, if two others do not."""
    whole = {name: of_file for name, of_file in files.items() if max(of_file) >= _LARGE}
    return whole if len(whole) > 1 and not _is_operation(files) else files


def short_files(facts: Facts) -> Iterator[str]:
    """Yield files that end at small sizes, and are not compared with others of their test."""
    compared = {
        fact.place.path
        for files in _tests(facts)
        for of_file in _without_short(files).values()
        for fact in of_file.values()
    }
    largest: dict[str, float] = {}
    for fact in facts.of(Quantity.MESSAGE_TIME):
        largest[fact.place.path] = max(largest.get(fact.place.path, 0.0), fact.value.size_bytes)
    for path, size in largest.items():
        if path not in compared and size < _LARGE:
            yield f"{path} ends at {size_text(size)} and its rate is not compared with the other files of its test"


def incomparable_tables(facts: Facts) -> Iterator[str]:
    """Yield the tests whose files share only small sizes, so that their rates are not compared."""
    for files in _tests(facts):
        if _shares_no_rate(files) and not _is_operation(files):
            largest = size_text(_common_sizes(files)[-1])
            test = _name_of(next(iter(next(iter(files.values())).values())))
            yield f"the {_kind(files)}s of {test} share no size above {largest}: their rates are not compared"


def _lacks_pairs(fact: Fact) -> bool:
    """Return whether a time is of several pairs whose number the program does not print."""
    return fact.quantity is Quantity.MESSAGE_TIME and fact.value.processes is None


def has_unknown_pairs(facts: Facts) -> bool:
    """Return whether a file does not print the number of its pairs."""
    return any(_lacks_pairs(fact) for fact in facts.of(Quantity.MESSAGE_TIME))


def different_paths(facts: Facts) -> Iterator[str]:
    """Yield the files of one test each of which is much faster at some sizes: those of different paths."""
    for files in map(_without_short, _tests(facts)):
        found = _crossing(files)
        if found is not None:
            small, large = found
            yield (
                f"{small} has the shorter small messages and {large} the faster large ones, as within and between "
                "hosts: they are not compared"
            )


def _crossing(files: _Times) -> tuple[str, str] | None:
    """Return the file with the shortest small messages and that with the fastest large ones, if both differ much."""
    sizes = _common_sizes(files)
    if not sizes or sizes[-1] < _LARGE or _is_operation(files):
        return None
    ratios = _ratios(files, sizes)
    small, large = (min(ratios, key=lambda name: ratios[name][place]) for place in (0, -1))
    is_crossing = ratios[large][0] > _OTHER_PATH and ratios[small][-1] > _SLOW
    return (small, large) if is_crossing else None


def slow_message_files(facts: Facts) -> Iterator[Finding]:
    """Yield the files whose messages are slower than the same test in the fastest other file."""
    for files in _tests(facts):
        rated = _without_short(files)
        sizes = _common_sizes(rated)
        if not sizes or _crossing(rated) is not None:
            continue
        has_rates = sizes[-1] >= _LARGE and not _is_operation(files)
        of_rate = _ratios(rated, [size for size in sizes if size >= sizes[-1] / 2])
        slow = [name for name in rated if has_rates and of_rate[name][-1] > _SLOW and of_rate[name].min() > _ALIKE]
        if slow:
            yield _with_commands(facts, rated, _finding(rated, slow, sizes[-1], "reach", SYMPTOM + 1))
        single = [name for name in rated if has_rates and name not in slow and of_rate[name][-1] > _FAR]
        if single and not slow:
            found = _finding(rated, single, sizes[-1], "reach", MINOR)
            yield replace(found, text=f"{found.text}; smaller sizes are alike")
        # Latencies of short files are compared, too, if they share a size with the others.
        sizes = _common_sizes(files)
        if not sizes:
            files, sizes = rated, _common_sizes(rated)
        ratios = _ratios(files, sizes)
        late = [name for name in files if name not in slow and _is_late(ratios[name])]
        if late:
            worst = max(late, key=lambda name: ratios[name].max())
            size = sizes[int(np.argmax(ratios[worst]))]
            before = _finding(files, late, size, "last", SYMPTOM + 0.5)
            found = _with_commands(facts, files, before)
            times = [of_file[size].value.time_s for of_file in files.values()]
            # Hops delay single messages, and not the many in flight of a window.
            is_single = next(iter(files[worst].values())).value.convention != "windowed"
            is_distance = not slow and is_single and max(times) - min(times) < _SWITCHES_S and not _is_operation(files)
            # What the commands do otherwise explains more than a distance.
            is_distance = is_distance and found is before
            if _are_in_between(files, late, sizes):
                found = replace(found, remedy=f"{_COMPARE_PROTOCOLS}; otherwise {found.remedy}")
            if _may_differ_in_processes(files, late):
                found = replace(found, text=f"{found.text}{_UNKNOWN_PROCESSES}", rank=MINOR)
            yield replace(found, remedy=f"{_DISTANCE}; {found.remedy}", rank=MINOR) if is_distance else found


def _are_in_between(files: _Times, late: Sequence[str], sizes: Sequence[float]) -> bool:
    """Return whether files are late at sizes between small and large ones only, as by another protocol."""
    ends = [0, 1, len(sizes) - 2, len(sizes) - 1]
    ratios = _ratios(files, sizes)
    return len(sizes) >= _FEWEST_SIZES and all((ratios[name][ends] < _ALIKE).all() for name in late)


def _may_differ_in_processes(files: _Times, late: Sequence[str]) -> bool:
    """Return whether tables of an operation may be of different numbers of processes, which no line states.

    Of several tables, those that are not late are alike if all have the same number.
    """
    firsts = [next(iter(of_file.values())).value for of_file in files.values()]
    if not _is_operation(files) or all(one.processes is not None for one in firsts):
        return False
    others = {name: of_file for name, of_file in files.items() if name not in late}
    sizes = _common_sizes(others)
    return (
        len(others) < _FEWEST_EQUAL
        or not sizes
        or any((ratios > _LATE).any() for ratios in _ratios(others, sizes).values())
    )


def _is_late(ratios: np.ndarray) -> bool:
    """Return whether times are longer than in the fastest file: at two neighbouring sizes, or far longer at the last.

    Small messages scatter: of many sizes in many files, one is late by chance.
    """
    late = ratios > _LATE
    is_last = ratios[-1] > _FAR and ratios[-2:].min() > _ALIKE
    is_often = late.sum() >= _OFTEN
    return bool((late[1:] & late[:-1]).any() or is_last or is_often or (late.any() and ratios.size < _FEW_SIZES))


def _with_commands(facts: Facts, files: _Times, finding: Finding) -> Finding:
    """Return a finding about two tables with the words in which their commands differ."""
    words = different_commands(facts, _first_rows(files))
    return replace(finding, text=f"{finding.text}{words}") if words else finding


def _first_rows(files: _Times) -> list[Place]:
    """Return the first row of each file or table."""
    return [min((fact.place for fact in of_file.values()), key=lambda place: place.line) for of_file in files.values()]


def agreement(facts: Facts) -> Iterator[str]:
    """Yield the tests of several files that agree, with the largest difference at their largest size."""
    for every in _tests(facts):
        files = _without_short(every)
        sizes, of_all = _common_sizes(files), _common_sizes(every)
        if not sizes or _is_operation(files) or _shares_no_rate(files):
            continue
        if of_all and any(_is_late(one) for one in _ratios(every, of_all).values()):
            continue
        ratios = _ratios(files, sizes)
        most = _SLOW if sizes[-1] >= _LARGE else _LATE
        if _odd_file(files) is not None:
            continue
        last = np.max([one[-2:] for one in ratios.values()], axis=0)
        more = ", their largest common size" if sizes[-1] < _LARGE and _has_rates(files) else ""
        but = ""
        if _FAR >= last[-1] > most and last.size > 1:
            # A single slow size is scatter.
            last, sizes, but = last[:-1], sizes[:-1], f" ({size_text(sizes[-1])} differs)"
        if not any(_is_late(one) for one in ratios.values()) and last[-1] <= most:
            test = _name_of(next(iter(files.values()))[sizes[-1]])
            spread = last[-1] - 1
            is_latency = next(iter(files.values()))[sizes[0]].value.convention != "windowed"
            small = f"{_in_time(files, list(files), sizes[0])} at {size_text(sizes[0])}, " if is_latency else ""
            yield (
                f"{len(files)} {_kind(files)}s of {test} agree: {small}{_in_rate(files, list(files), sizes[-1])} at "
                f"{size_text(sizes[-1])}{more}, within {100 * spread:.1f} %{but}"
                f"{different_commands(facts, _first_rows(files))}"
            )


def odd_message_files(facts: Facts) -> Iterator[Finding]:
    """Yield the file of a test that is slower than all others, which are alike among each other."""
    for files in map(_without_short, _tests(facts)):
        odd = _odd_file(files)
        if odd is None:
            continue
        name, size, verb = odd
        yield _finding(files, [name], size, verb, MINOR)


def _odd_file(files: _Times) -> tuple[str, float, str] | None:
    """Return the file that differs from alike others, a size, and the verb for a rate or time; None if none does."""
    sizes = _common_sizes(files)
    if len(files) < _FEWEST_ALIKE or not sizes or _is_operation(files):
        return None
    is_latency = next(iter(files.values()))[sizes[0]].value.convention != "windowed"
    places = ([(len(sizes) - 1, "reach", _SLOW)] if sizes[-1] >= _LARGE else []) + [(0, "last", _LATE)] * is_latency
    ratios = _ratios(files, sizes)
    for place, verb, most in places:
        order = sorted(files, key=lambda name: ratios[name][place])
        last, before = (float(ratios[name][place]) for name in (order[-1], order[-2]))
        # Beyond `most`, the file is slow without a comparison of spreads.
        if _ODD < last <= most and last - 1 > _TIMES_SPREAD * (before - 1):
            return order[-1], sizes[place], verb
    return None


def _shares_no_rate(files: _Times) -> bool:
    """Return whether files of a test share only sizes that show no rate, although one of them shows it."""
    sizes = _common_sizes(files)
    return bool(sizes) and sizes[-1] < _SHOWS_RATES and _has_rates(files)


def _has_rates(files: _Times) -> bool:
    """Return whether a file has large messages, which show the rate."""
    return any(max(of_file) >= _LARGE for of_file in files.values())


def alike_operations(facts: Facts) -> Iterator[str]:
    """Yield the operations whose times are alike in all files, with the largest difference."""
    for files in _tests(facts):
        sizes = _common_sizes(files)
        if not sizes or not _is_operation(files):
            continue
        ratios = np.array(list(_ratios(files, sizes).values()))
        if not any(map(_is_late, ratios)):
            size, single = sizes[-1], int((ratios > _LATE).any(axis=0).sum())
            most = float(ratios[ratios <= _LATE].max())
            test, time = _name_of(next(iter(files.values()))[size]), _in_time(files, list(files), size)
            but = f", but for {single} single size{'s' if single > 1 else ''}" if single else ""
            yield (
                f"{len(files)} {_kind(files)}s of {test} agree within {100 * (most - 1):.1f} %{but}: {time} at "
                f"{size_text(size)}"
            )


def falling_rates(facts: Facts) -> Iterator[str]:
    """Yield files whose largest messages have a small share of the highest rate of the same file."""
    for files in _tests(facts):
        for name, of_file in files.items():
            sizes = sorted(of_file)
            rates = np.array([size / of_file[size].value.time_s for size in sizes])
            top = int(np.argmax(rates))
            if rates[-1] < _FALLS * rates[top] and sizes[-1] >= _LARGE:
                test = _name_of(of_file[sizes[top]])
                way = each_way(of_file[sizes[top]]) or (" (size by time)" if _is_operation(files) else "")
                high, low = (f"{rate / 1e9:.3g} GB/s" for rate in (rates[top], rates[-1]))
                yield (
                    f"the rate{way} of {test} in {name} falls from {high} at {size_text(sizes[top])} to {low} at "
                    f"{size_text(sizes[-1])}: within a host that is usual where buffers exceed a cache, between hosts "
                    "packets are lost or memory is registered again"
                )


def slow_protocols(facts: Facts) -> Iterator[Finding]:
    """Yield the first file of each test whose rate falls at a size below large ones, and stays lower at the next."""
    for files in _tests(facts):
        found = (finding for of_file in files.values() if (finding := _slow_protocol(of_file)) is not None)
        yield from islice(found, 1)


def _slow_protocol(of_file: Mapping[float, Fact]) -> Finding | None:
    """Return the finding that the protocol of larger messages is much slower where it begins."""
    sizes = sorted(of_file)
    if of_file[sizes[0]].value.convention != "windowed":
        return None
    rates = [of_file[size].value.bytes_per_s for size in sizes]
    for place in range(len(sizes) - 2):
        if sizes[place] <= _LARGEST_OF_CHANGE and rates[place] > _DROP * max(rates[place + 1 : place + 3]):
            break
    else:
        return None
    fact = of_file[sizes[place + 1]]
    high, low = (
        f"{rate / 1e9:.3g} GB/s at {size_text(size)}"
        for rate, size in zip(rates[place:], sizes[place : place + 2], strict=False)
    )
    text = f"the rate{each_way(fact)} of {_name_of(fact)} falls from {high} to {low}, where another protocol begins"
    return Finding("slow_protocol", text, _OTHER_PROTOCOL, SYMPTOM, origin=str(fact.place))


def sudden_steps(facts: Facts) -> Iterator[Finding]:
    """Yield the first file of each test in which a small size lasts many times as long as the size before it."""
    for files in _tests(facts):
        found = (finding for of_file in files.values() if (finding := _sudden_step(of_file)) is not None)
        yield from islice(found, 1)


def _sudden_step(of_file: Mapping[float, Fact]) -> Finding | None:
    sizes = sorted(size for size in of_file if size <= _LARGE)
    for before, size in itertools.pairwise(sizes):
        times = [of_file[one].value.time_s for one in (before, size)]
        # The mean of few repetitions follows a single slow one.
        shortest_s = of_file[size].value.shortest_s or times[1]
        is_step = size <= 2 * before and min(times[1], shortest_s) > max(_STEP * times[0], _LONG_S)
        if is_step and not _is_lasting(times[1], [of_file[one].value.time_s for one in sizes if one > size]):
            fact = of_file[size]
            text = (
                f"{_name_of(fact)}: {size_text(size)} last {duration_text(times[1])}, {size_text(before)} "
                f"{duration_text(times[0])}: {times[1] / times[0]:.0f} times as long, as where packets are lost and "
                "sent again"
            )
            return Finding("late_messages", text, _CHECK_LOSSES, SYMPTOM + 1, origin=str(fact.place))
    return None


def _is_lasting(time_s: float, after_s: Sequence[float]) -> bool:
    """Return whether all larger sizes last as long, as after a change of protocol or path; timeouts last longer."""
    return len(after_s) >= _LASTING and min(after_s) > time_s / 2 and time_s < _TIMEOUT_S


def longer_than_larger(facts: Facts) -> Iterator[Finding]:
    """Yield the operations of which small sizes last longer than larger ones, the worst of each test."""
    for files in _tests(facts):
        found = [finding for of_file in files.values() if (finding := _longer(of_file)) is not None]
        yield from found[:1]


def _longer(of_file: Mapping[float, Fact]) -> Finding | None:
    sizes = np.array(sorted(of_file))
    times = np.array([of_file[size].value.time_s for size in sizes])
    first = of_file[sizes[0]]
    found = longer_sizes(sizes, times, _LONGER) if first.value.convention == OPERATION else None
    if found is None:
        return None
    worst, larger, words = found
    lines = [of_file[sizes[place]].place for place in (worst, larger)]
    origin = str(min(lines, key=lambda place: place.line))
    return Finding(
        "slower_than_larger_sizes", f"{first.value.path} of {words}", _CHECK_ALGORITHM, SYMPTOM, origin=origin
    )


def _is_operation(files: _Times) -> bool:
    return any(fact.quantity is Quantity.OPERATION_TIME for of_file in files.values() for fact in of_file.values())


def _common_sizes(files: _Times) -> list[float]:
    """Return the sizes that all files have; none of a single file, which is compared with no other."""
    return sorted(set.intersection(*map(set, files.values()))) if len(files) > 1 else []


def _ratios(files: _Times, sizes: Sequence[float]) -> dict[str, NDArray[np.float64]]:
    """Return the times of each file relative to the shortest of all, by size."""
    times = {name: np.array([of_file[size].value.time_s for size in sizes]) for name, of_file in files.items()}
    shortest = np.min(list(times.values()), axis=0)
    return {name: one / shortest for name, one in times.items()}


def _finding(files: _Times, slow: Sequence[str], size: float, verb: str, weight: float) -> Finding:
    """Return the finding about slow files, with the worst of them as evidence."""
    others = [name for name in files if name not in slow] or [
        min(files, key=lambda name: files[name][size].value.time_s)
    ]
    worst = max(slow, key=lambda name: files[name][size].value.time_s)
    test, text = _name_of(files[worst][size]), _in_rate if verb == "reach" else _in_time
    if text is _in_time and files[worst][size].value.convention == "windowed":
        verb, text = "reach", _in_messages
    shown = slow if verb == "reach" and text is _in_rate else [worst]
    which = _kind(files) if len(others) == 1 else f"{len(others)} {_kind(files)}s"
    what = f"{test if _is_operation(files) else f'messages of {test}'} of {size_text(size)}"
    # Barriers have no size.
    what = what if size else f"repetitions of {test}"
    words = (
        f"{listed(slow, _MOST_NAMES)}: {what} {verb} "
        f"{text(files, shown, size)}, in the other {which} "
        f"{text(files, others, size)}"
    )
    words += _of_names(slow, [name for name in files if name not in slow])
    cause = "slow_messages" if text is _in_rate else "late_messages"
    remedy = _CHECK_FILE
    if _kind(files) == "table":
        # Tables of one file are often different tests: within a node and between nodes, before and after a change.
        remedy, weight = _CHECK_TABLE, MINOR
    return Finding(cause, words, remedy, weight, origin=str(files[worst][size].place))


def _of_names(slow: Sequence[str], others: Sequence[str]) -> str:
    """Return which word, such as a host, the names of all slow files have, and none of the others."""
    if len(slow) < _FEWEST_NAMES or len(others) < _FEWEST_NAMES:
        return ""
    words = [set(_WORD.findall(name)) for name in slow]
    common = set.intersection(*words) - {word for name in others for word in _WORD.findall(name)}
    return f"; the names of all slow files, and of no other, have {listed(sorted(common), 2)}" if common else ""


def _kind(files: _Times) -> str:
    """Return the word for what is compared."""
    if all(next(iter(one.values())).host for one in files.values()):
        return "host"
    return "table" if len({next(iter(one.values())).place.path for one in files.values()}) < len(files) else "file"


def _in_rate(files: _Times, names: Sequence[str], size: float) -> str:
    rates = [files[name][size].value.bytes_per_s / 1e9 for name in names]
    low_high = " to ".join(dict.fromkeys(f"{one:.3g}" for one in (min(rates), max(rates))))
    return f"{low_high} GB/s{each_way(files[names[0]][size])}"


def each_way(fact: Fact) -> str:
    """Return words about tests in both directions, whose rate is that of one."""
    return " in each direction" if "bidirectional" in fact.value.path or fact.value.path.endswith("biband") else ""


def _name_of(fact: Fact) -> str:
    """Return the name of a test as its user calls it."""
    one = fact.value
    if one.path in _PROGRAMS and one.processes not in (None, 1):
        return f"{_PROGRAMS[one.path][1]} ({one.processes} pairs)"
    return _PROGRAMS[one.path][0] if one.path in _PROGRAMS and one.processes == 1 else str(one.path)


def _in_messages(files: _Times, names: Sequence[str], size: float) -> str:
    rates = [(one.processes or 1) / one.time_s / 1e6 for one in (files[name][size].value for name in names)]
    return " to ".join(dict.fromkeys(f"{one:.3g}" for one in (min(rates), max(rates)))) + " million messages/s"


def _in_time(files: _Times, names: Sequence[str], size: float) -> str:
    times = [files[name][size].value.time_s for name in names]
    return " to ".join(dict.fromkeys(duration_text(one) for one in (min(times), max(times))))


def late_rendezvous(facts: Facts) -> Iterator[Finding]:
    """Yield files whose messages would be faster with the protocol of larger ones."""
    for files in _tests(facts):
        for of_file in files.values():
            finding = _late_rendezvous(of_file) or _longer_in_window(of_file)
            if finding is not None:
                yield finding
                return


def _late_rendezvous(of_file: Mapping[float, Fact]) -> Finding | None:
    size = np.array(sorted(of_file))
    # The time of the fit grows with the square of the number of sizes.
    size = size[np.unique(np.linspace(0, size.size - 1, min(size.size, _MOST_SIZES)).round().astype(int))]
    first = of_file[size[0]].value
    if size.size < _FEWEST_SIZES or first.convention != "one_way" or first.processes not in (None, 1):
        return None
    time_s = np.array([of_file[one].value.time_s for one in size])
    found = _late_switch(size, time_s)
    if found is None:
        return None
    if found.to_bytes < _SMALLEST_OF_LATE or not _are_several_late(size, time_s, found.to_bytes):
        return None
    text = (
        f"messages of {size_text(found.from_bytes)} to {size_text(found.to_bytes)} would be faster with the protocol "
        f"of larger ones ({found.factor:.2f} times as fast at {size_text(found.to_bytes)}), which begins too late"
    )
    remedy = f"{LATE_SWITCH_REMEDY} {size_text(found.from_bytes)}"
    if first.in_gpu_memory:
        remedy = f"{_SMALL_ON_GPU}; or {remedy}"
    return Finding("late_rendezvous", text, remedy, CONTRADICTION - 1, origin=str(of_file[found.to_bytes].place))


def _are_several_late(size: NDArray[np.float64], time_s: NDArray[np.float64], last: float) -> bool:
    """Return whether the last two sizes of a protocol are late against the line of larger ones: one is scatter."""
    place = int(np.searchsorted(size, last))
    larger, after = size[place + 1 : place + 4], time_s[place + 1 : place + 4]
    if larger.size < 2 or place < 1:
        return False
    slope, start = np.polyfit(larger, after, 1, w=1 / after)
    line = np.maximum(start, 0.0) + slope * size[place - 1 : place + 1]
    return bool((time_s[place - 1 : place + 1] > _ALIKE * line).all())


def _late_switch(size: NDArray[np.float64], time_s: NDArray[np.float64]) -> LateSwitch | None:
    """Return the change of protocol that comes too late, if the times of some sizes show one."""
    from fabricast.maxrate.protocols import ProtocolRegressor, late_switch  # slow to import: scikit-learn

    split = ProtocolRegressor("postal", fewest_sizes=_FEWEST_OF_PROTOCOL).fit(
        np.column_stack([size, np.ones_like(size)]), time_s
    )
    return late_switch(split, size)


def _longer_in_window(of_file: Mapping[float, Fact]) -> Finding | None:
    """Return the finding that a size of overlapping messages lasts longer than a larger one of another protocol."""
    sizes = sorted(size for size in of_file if size >= _SMALLEST_OF_PROTOCOLS)
    if not sizes or of_file[sizes[0]].value.convention != "windowed":
        return None
    times = [of_file[size].value.time_s for size in sizes]
    factor, place = max(((times[n] / times[n + 1], n) for n in range(len(sizes) - 1)), default=(0.0, 0))
    # Noise of one size is no protocol: the sizes before and after it have times of the same kind.
    if factor < _FASTER or not 0 < place < len(sizes) - 2 or times[place + 2] > 2 * _FASTER * times[place + 1]:
        return None
    if times[place] > 2 * _FASTER * times[place - 1] or times[place - 1] < times[place + 1] / _FASTER:
        return None
    size, next_size = (size_text(one) for one in sizes[place : place + 2])
    text = (
        f"messages of {_name_of(of_file[sizes[place]])} of {size} last {duration_text(times[place])}, those of "
        f"{next_size} {duration_text(times[place + 1])} with another protocol, which begins too late"
    )
    place_of = of_file[sizes[place]].place
    # A slow host explains more than a threshold of all files.
    return Finding("late_rendezvous", text, f"{LATE_SWITCH_REMEDY} {size}", SYMPTOM + 0.2, origin=str(place_of))
