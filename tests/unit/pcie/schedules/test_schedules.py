"""Tests of schedules: published table, brute force, symmetries, search, invalid input."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.pcie.graphs.patterns import Pattern, halo_pattern, read_pattern
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import factors
from fabricast.pcie.schedules.enumeration import enumerate_schedules, lower_bound_s, run_schedule
from fabricast.pcie.schedules.search import search_schedules
from fabricast.pcie.schedules.space import schedule_space
from fabricast.pcie.tables.schedules import read_published
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree
from tests.conftest import REPOSITORY

UNIT = {"bandwidth_bytes_per_s": 1.0, "tau": 0.1735}
GRIDS = {"2D": (4, 2), "3D": (2, 2, 2)}
PUBLISHED = read_published(REPOSITORY / "config" / "published" / "pcie_schedules.yaml")
# studies/pcie.md section 5: best, ties, median, worst, published time and rank.
EXPECTED = [
    ("2D", "storm8", "asynchronous", "congestion_factor", 4.0, 4, 6.878, 9.111, 4.0, 1),
    ("2D", "storm8", "synchronised", "congestion_factor", 4.0, 6, 7.515, 12.084, 4.0, 1),
    ("3D", "storm8", "asynchronous", "congestion_factor", 4.0, 24, 8.080, 11.811, 4.0, 1),
    ("3D", "storm8", "synchronised", "congestion_factor", 4.0, 24, 9.046, 14.576, 4.0, 1),
    ("2D", "storm8", "asynchronous", "solo_crossing_penalty", 4.368, 2, None, None, 4.404, 3),
    ("3D", "storm8", "asynchronous", "solo_crossing_penalty", 4.526, 4, None, None, 4.526, 1),
    ("2D", "flat4x2", "asynchronous", "congestion_factor", 4.0, 34, None, None, 4.5, 39),
    ("3D", "flat4x2", "asynchronous", "congestion_factor", 4.0, 480, None, None, 4.53, 577),
    ("2D", "cascade8", "asynchronous", "congestion_factor", 4.0, 42, None, None, 4.5, 57),
    ("3D", "cascade8", "asynchronous", "congestion_factor", 4.0, 544, None, None, 4.5, 609),
    ("2D", "boards4", "asynchronous", "congestion_factor", 3.0, 10, None, None, 3.0, 1),
    ("3D", "boards4", "asynchronous", "congestion_factor", 4.0, 124, None, None, 4.0, 1),
    ("2D", "dgx1", "asynchronous", "congestion_factor", 4.0, 4, None, None, 4.0, 1),
    ("3D", "dgx1", "asynchronous", "congestion_factor", 4.0, 24, None, None, 4.0, 1),
    ("2D", "storm8", "asynchronous", "max_min", 4.0, 2, 6.0, 8.0, 4.5, 5),
]


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: "-".join(map(str, case[:4])))
def test_published_table_of_the_study(case):
    grid, topology, mode, model, best, ties, median, worst, published, rank = case
    tree, pattern = load_tree(topology), halo_pattern(GRIDS[grid], 8, size_bytes=1.0)
    search = enumerate_schedules(tree, pattern, mode, model=MODELS[model], threads=2, top=30, **UNIT)
    assert search.best[0].elapsed_s == pytest.approx(best, abs=6e-4)
    assert search.ties == ties
    if median is not None:
        assert np.median(search.elapsed_s) == pytest.approx(median, abs=6e-4)
        assert search.worst.elapsed_s == pytest.approx(worst, abs=6e-4)
    entry = next(entry for entry in PUBLISHED if tuple(entry.grid) == GRIDS[grid])
    published_plan = run_schedule(tree, pattern, entry.order(8), mode, model=MODELS[model], **UNIT)
    assert published_plan.elapsed_s == pytest.approx(published, abs=6e-3)
    assert search.rank_of(published_plan.elapsed_s) == rank
    assert search.bound_s <= search.best[0].elapsed_s * (1 + 1e-9)


def plain_times(tree, order, sizes, mode, latency):
    """Evaluate one schedule with only the congestion factors of active sets (reference)."""
    if mode == "synchronised":
        total = 0.0
        for step in itertools.zip_longest(*order):
            left = {(s, t): sizes[s, t] for s, t in enumerate(step) if t is not None}
            total += latency
            while left:
                pairs = sorted(left)
                rho = dict(zip(pairs, factors(tree, pairs, MODELS["congestion_factor"], tau=0.1735), strict=True))
                step_s = min(left[pair] / rho[pair] for pair in pairs)
                total += step_s
                left = {
                    pair: left[pair] - rho[pair] * step_s for pair in pairs if left[pair] - rho[pair] * step_s > 1e-9
                }
        return total
    queue = {s: list(own) for s, own in enumerate(order) if own}
    waits = dict.fromkeys(queue, latency)
    left = {s: sizes[s, own[0]] for s, own in queue.items()}
    now = 0.0
    while queue:
        active = sorted(s for s in queue if waits[s] <= 1e-12)
        pairs = [(s, queue[s][0]) for s in active]
        rho = (
            dict(zip(active, factors(tree, pairs, MODELS["congestion_factor"], tau=0.1735), strict=True))
            if pairs
            else {}
        )
        step_s = min([waits[s] for s in queue if waits[s] > 1e-12] + [left[s] / rho[s] for s in active])
        now += step_s
        for s in list(queue):
            if s not in rho:
                waits[s] -= step_s
                continue
            left[s] -= rho[s] * step_s
            if left[s] <= 1e-9:
                queue[s].pop(0)
                if not queue[s]:
                    del queue[s]
                else:
                    left[s], waits[s] = sizes[s, queue[s][0]], latency
    return now


@pytest.mark.parametrize(("mode", "latency_s"), [("synchronised", 0.0), ("asynchronous", 0.0), ("asynchronous", 0.3)])
def test_enumeration_equals_general_event_loop(storm8, mode, latency_s):
    pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    search = enumerate_schedules(storm8, pattern, mode, threads=2, latency_s=latency_s, **UNIT)
    generator = np.random.default_rng(5)
    counts = [6] * 8
    orders = list(itertools.permutations(range(3)))
    for number in generator.choice(pattern.schedules, 2000, replace=False).tolist():
        digits, rest = [], number
        for count in counts:
            rest, digit = divmod(rest, count)
            digits.append(digit)
        order = [[pattern.targets[s][choice] for choice in orders[digit]] for s, digit in enumerate(digits)]
        plan = run_schedule(storm8, pattern, order, mode, latency_s=latency_s, **UNIT)
        assert plan.elapsed_s == pytest.approx(search.elapsed_s[number], rel=1e-9)


@pytest.mark.parametrize("mode", ["synchronised", "asynchronous"])
@pytest.mark.parametrize("latency", [0.0, 0.3])
def test_sizes_by_axis_and_latency_equal_reference(storm8, mode, latency):
    pattern = halo_pattern((2, 2, 2), 8, size_bytes=(1.0, 0.4, 2.5))
    sizes = {
        (s, t): size
        for s, (own, volumes) in enumerate(zip(pattern.targets, pattern.size_bytes, strict=True))
        for t, size in zip(own, volumes, strict=True)
    }
    search = enumerate_schedules(storm8, pattern, mode, latency_s=latency, threads=2, top=3, **UNIT)
    generator = np.random.default_rng(2)
    for _ in range(12):
        order = [generator.permutation(own).tolist() for own in pattern.targets]
        expected = plain_times(storm8, order, sizes, mode, latency)
        plan = run_schedule(storm8, pattern, order, mode, latency_s=latency, **UNIT)
        assert plan.elapsed_s == pytest.approx(expected, rel=1e-7)
    for plan in (*search.best, search.worst, search.naive):
        assert plan.elapsed_s == pytest.approx(plain_times(storm8, plan.order, sizes, mode, latency), rel=1e-7)
    assert search.best[0].elapsed_s == pytest.approx(search.elapsed_s.min(), rel=1e-9)
    assert search.worst.elapsed_s == pytest.approx(search.elapsed_s.max(), rel=1e-9)


def test_unequal_sizes_break_symmetry_and_agree_with_brute_force(storm8, tmp_path):
    path = tmp_path / "pattern.csv"
    path.write_text("source,target,size_bytes\n0,1,5\n0,2,1\n0,4,2\n1,0,1\n1,5,3\n4,0,1\n4,6,1\n7,2,4\n")
    pattern = read_pattern(path, storm8, size_bytes=1.0)
    assert pattern.schedules == 6 * 2 * 2
    search = enumerate_schedules(storm8, pattern, "asynchronous", **UNIT)
    every = [
        run_schedule(storm8, pattern, order, "asynchronous", **UNIT).elapsed_s
        for order in itertools.product(*(itertools.permutations(own) for own in pattern.targets))
    ]
    assert sorted(search.elapsed_s) == pytest.approx(sorted(every), rel=1e-9)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.permutations(range(7)), min_size=8, max_size=8),
    st.sampled_from([(4, 4, 3, 0, 2, 1, 0, 2), (3, 2, 2, 3, 1, 0, 4, 0), (0, 5, 0, 4, 0, 0, 0, 1), (2,) * 8]),
    st.lists(st.sampled_from([1.0, 1.0, 2.5]), min_size=40, max_size=40),
    st.sampled_from(["congestion_factor", "back_pressure", "literal", "max_min"]),
    st.sampled_from([0.0, 0.2]),
    st.randoms(use_true_random=False),
)
def test_enumerated_times_equal_event_loop_for_any_pattern(places, counts, sizes, model, latency_s, random):
    """Compare enumerated times by number with single runs, for any targets, sizes and pauses."""
    tree = load_tree("storm8")
    targets = tuple(
        tuple(place + (place >= source) for place in own[:count])
        for source, (own, count) in enumerate(zip(places, counts, strict=True))
    )
    left = iter(sizes)
    pattern = Pattern("any", targets, tuple(tuple(next(left) for _ in own) for own in targets))
    keywords = UNIT | {"model": MODELS[model], "latency_s": latency_s}
    search = enumerate_schedules(tree, pattern, "asynchronous", threads=2, top=1, **keywords)
    space = schedule_space(pattern)
    for number in random.sample(range(pattern.schedules), 8):
        single = run_schedule(tree, pattern, space.orders(number), "asynchronous", **keywords)
        assert search.elapsed_s[number] == pytest.approx(single.elapsed_s, rel=1e-9)


def test_fully_symmetric_scatter_is_enumerated():
    """Enumerate a pattern whose schedules are all symmetric to each other."""
    pattern = Pattern("scatter", (tuple(range(1, 8)), *((),) * 7), ((1.0,) * 7, *((),) * 7))
    search = enumerate_schedules(regular_tree("flat", (8,)), pattern, "asynchronous", **UNIT)
    assert search.elapsed_s.size == 5040
    assert search.elapsed_s == pytest.approx(7.0)


def links_of_many_speeds(branching, generator):
    tree = regular_tree("speeds", branching)
    return PcieTree(
        tree.name, tuple(replace(vertex, capacity=float(generator.uniform(0.3, 1.0))) for vertex in tree.vertices)
    )


@pytest.mark.parametrize(
    ("branching", "counts"),
    [((2, 2, 2), (2, 2, 3, 2, 1, 2, 2, 3)), ((2, 3, 2), (2, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 1))],
    ids=["more than 256 rates", "more than 8 sources"],
)
def test_many_distinct_rates_and_many_sources(branching, counts):
    generator = np.random.default_rng(5)
    tree = links_of_many_speeds(branching, generator)
    endpoints = len(counts)
    targets = tuple(
        tuple(generator.permutation([t for t in range(endpoints) if t != source])[:count].tolist())
        for source, count in enumerate(counts)
    )
    pattern = Pattern("any", targets, tuple((1.0,) * count for count in counts))
    search = enumerate_schedules(tree, pattern, "asynchronous", top=1, **UNIT)
    space = schedule_space(pattern)
    for number in generator.choice(pattern.schedules, 8, replace=False).tolist():
        single = run_schedule(tree, pattern, space.orders(number), "asynchronous", **UNIT)
        assert search.elapsed_s[number] == pytest.approx(single.elapsed_s, rel=1e-9)


@pytest.mark.slow
def test_search_reaches_proved_optimum_and_reports_gap(storm8):
    everyone = tuple(tuple(t for t in range(8) if t != s) for s in range(8))
    pattern = Pattern("all-to-all", everyone, ((1.0,) * 7,) * 8)
    search = search_schedules(storm8, pattern, "synchronised", threads=2, evaluations=30_000, **UNIT)
    assert search.bound_s == 16.0
    assert search.gap == pytest.approx(0.0, abs=1e-9)
    assert search.naive.elapsed_s > 2 * search.best[0].elapsed_s
    storm16 = load_tree("storm16")
    grid = halo_pattern((4, 4), 16, size_bytes=1.0)
    few = search_schedules(storm16, grid, "asynchronous", evaluations=1500, **UNIT)
    assert few.bound_s == 8.0
    assert 0 <= few.gap < 0.25
    assert few.best[0].elapsed_s < few.naive.elapsed_s
    again = search_schedules(storm16, grid, "asynchronous", evaluations=1500, threads=2, **UNIT)
    assert again.best == few.best


def test_bounds_hold_for_every_model(flat4x2):
    pattern = halo_pattern((4, 2), 8, size_bytes=1.0)
    bound = lower_bound_s(flat4x2, pattern, bandwidth_bytes_per_s=1.0)
    for model in ("back_pressure", "round_robin_upstream", "max_min", "literal"):
        search = enumerate_schedules(flat4x2, pattern, "asynchronous", model=MODELS[model], **UNIT)
        assert search.elapsed_s.min() >= bound * (1 - 1e-9), model


def test_schedule_command_output_is_reusable(tmp_path):
    path = tmp_path / "best.json"
    result = CliRunner().invoke(app, ["schedule", "storm8", "--halo", "4x2", "--top", "2", "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert "all 20,736 schedules evaluated; 4 are this fast" in result.output
    entries = json.loads(path.read_text())
    assert sorted(entries[0]["targets"]["1"]) == ["0", "2", "5"]
    table = tmp_path / "best.csv"
    result = CliRunner().invoke(app, ["schedule", "storm8", "--halo", "4x2", "--top", "1", "-o", str(table)])
    assert table.read_text().splitlines()[0] == "schedule,source,step,target,elapsed_s"
    assert len(table.read_text().splitlines()) == 1 + 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["storm8"], "either --halo GRID or --communications FILE"),
        (["storm8", "--halo", "4y2"], "expected a grid such as 4x2"),
        (["storm8", "--halo", "4x4"], "2 to 8 processes"),
        (
            ["storm8", "--halo", "4x2", "--mode", "both"],
            "mode 'both' is unknown, expected one of synchronised, asynchronous",
        ),
        (["storm8", "--halo", "4x2", "--model", "magic"], "is unknown"),
        (["storm8", "--communications", "none.csv"], "cannot be read"),
        (["storm8", "--halo", "4x2", "-o", "x.txt"], "ends in .csv or .json"),
    ],
)
def test_invalid_schedule_arguments_are_rejected(arguments, message):
    result = CliRunner().invoke(app, ["schedule", *arguments])
    assert result.exit_code != 0
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n",
        "source,target\n0,9\n",
        "source,target\n0,0\n",
        "source,target\n0,1\n0,1\n",
        "source,target,size_bytes\n0,1,nan\n",
        "source,target\n0\n",
        "source,target\n",
    ],
)
def test_invalid_pattern_files_are_rejected(storm8, tmp_path, text):
    path = tmp_path / "pattern.csv"
    path.write_text(text)
    with pytest.raises(InputError, match="pattern.csv"):
        read_pattern(path, storm8, size_bytes=1.0)


@pytest.mark.parametrize("latency_s", [0.0, 0.2])
def test_starved_schedules_never_end(storm8, latency_s):
    targets = ((3,), (7,), (), (7, 2, 5), (1, 5, 6), (0,), (7,), (1, 3))
    sizes = ((1.0,), (2.0,), (), (2.0, 1.0, 1.0), (1.0, 1.0, 1.0), (2.0,), (1.0,), (2.0, 1.0))
    pattern = Pattern("starving", targets, sizes)
    # Without work conservation, unused bandwidth can be all the bandwidth of a copy.
    keywords = {
        "model": MODELS["not_work_conserving"],
        "bandwidth_bytes_per_s": 1.0,
        "tau": 0.5,
        "latency_s": latency_s,
    }
    search = enumerate_schedules(storm8, pattern, "asynchronous", **keywords)
    orders = itertools.product(*(itertools.permutations(own) for own in reversed(targets)))
    times_s = [run_schedule(storm8, pattern, order[::-1], "asynchronous", **keywords).elapsed_s for order in orders]
    assert np.isinf(times_s).any()
    assert search.elapsed_s == pytest.approx(times_s, rel=1e-9)
