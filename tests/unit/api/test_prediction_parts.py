"""Graphs part by part, several at once: the same rows and notes as one after the other."""

import threading
from dataclasses import replace

import pandas as pd
import pytest

import fabricast as fc
from fabricast.api.predictions import Predictor
from fabricast.core.errors import InputError
from fabricast.runtime.threads import mapped_ahead

TREE = fc.load_topology("flat4x4")
ARCS = [[(k % 16, (k + 1 + k % 5) % 16), ((k + 3) % 16, (k + 9) % 16), (k % 16, (k + 7) % 16)] for k in range(40)]


def parts():
    return [fc.graph(arcs, size="1 KiB" if number == 7 else "300 MiB") for number, arcs in enumerate(ARCS)]


@pytest.mark.parametrize("model", ["congestion_factor", "endpoint_engines"])
def test_threads_change_neither_rows_nor_notes(model):
    found = []
    for threads in (1, 2, 5):
        predictor = Predictor(TREE, model=model, bandwidth="10 GiB/s", threads=threads)
        rows = pd.concat(list(predictor.predict_parts(iter(parts()))))
        found.append((rows.astype(object), predictor.notes()))
    one_by_one = Predictor(TREE, model=model, bandwidth="10 GiB/s")
    expected = pd.concat([one_by_one.predict(part) for part in parts()]).astype(object)
    for rows, notes in found:
        pd.testing.assert_frame_equal(rows, expected)
        assert notes == one_by_one.notes()
    assert len(expected) == 120
    assert model == "endpoint_engines" or any("start-up" in note for note in one_by_one.notes())


@pytest.mark.parametrize("model", ["congestion_factor", "endpoint_engines"])
def test_only_models_say_that_they_know_no_programs_and_no_other_sockets(model):
    tree = fc.load_topology("pcie5_four_switches")
    part = replace(fc.graph([(0, 4), (4, 0)]), programs=("ordered_writes",))
    predictor = Predictor(tree, model=model, bandwidth="10 GiB/s")
    list(predictor.predict_parts([part]))
    notes = " | ".join(predictor.notes())
    for said in ("here every copy runs by itself", "copies between root complexes: 2;"):
        assert (said in notes) == (model == "congestion_factor"), notes


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_wrong_part_is_raised_after_those_before_it(threads):
    wrong = fc.graph([(0, 40)])
    predictor = Predictor(TREE, bandwidth="10 GiB/s", threads=threads)
    found = predictor.predict_parts([*parts()[:5], wrong, *parts()[5:]])
    taken = [next(found) for _ in range(5)]
    assert [len(table) for table in taken] == [3] * 5
    with pytest.raises(InputError, match="40"):
        next(found)


def test_as_many_items_are_worked_on_as_there_are_threads_and_few_wait():
    asked, running, most = 0, 0, 0
    lock, meeting = threading.Lock(), threading.Barrier(3, timeout=10)

    def items():
        nonlocal asked
        for item in range(1, 13):
            asked = item
            yield item

    def work(item):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        # Passed only if three are worked on at once.
        meeting.wait()
        with lock:
            running -= 1
        return item * item

    found = mapped_ahead(work, items(), threads=3)
    assert next(found) == 1
    assert asked <= 4
    assert list(found) == [item * item for item in range(2, 13)]
    assert most == 3
