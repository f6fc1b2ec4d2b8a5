"""Concurrent prediction of blocks of graphs equals sequential prediction."""

import threading
from dataclasses import replace

import pandas as pd
import pytest

import fabricast as fc
from fabricast.api.methods import Method
from fabricast.api.predictor import Notes, Predictor
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.machine.build import machine_of_tree
from fabricast.machine.options import MachineOptions
from fabricast.runtime.threads import prefetched_map

TREE = fc.load_topology("flat4x4")
ARCS = [[(k % 16, (k + 1 + k % 5) % 16), ((k + 3) % 16, (k + 9) % 16), (k % 16, (k + 7) % 16)] for k in range(40)]


def predictor_of(tree, model="ports_and_engines", **options):
    machine = machine_of_tree(tree, options=MachineOptions(bandwidth_bytes_per_s=10 * 2.0**30))
    return Predictor(machine, Method(model), **options)


def notes_of(found):
    return sum((one.notes for one in found), Notes())


def parts():
    return [fc.graph(pairs, size="1 KiB" if number == 7 else "300 MiB") for number, pairs in enumerate(ARCS)]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["congestion_factor", "endpoint_engines"])
def test_rows_and_warnings_are_independent_of_the_number_of_threads(model):
    predictions = []
    for threads in (1, 2, 5):
        predictor = predictor_of(TREE, model, limited_by=True, threads=threads)
        found = list(predictor.predict_parts(iter(parts())))
        rows = pd.concat([one.table for one in found])
        predictions.append((rows.astype(object), predictor.warnings(notes_of(found))))
    sequential = predictor_of(TREE, model, limited_by=True)
    one_by_one = [sequential.predict(part) for part in parts()]
    expected = pd.concat([one.table for one in one_by_one]).astype(object)
    warnings = sequential.warnings(notes_of(one_by_one))
    for rows, notes in predictions:
        pd.testing.assert_frame_equal(rows, expected)
        assert notes == warnings
    assert len(expected) == 120
    assert model == "endpoint_engines" or WarningCode.SMALL_COPIES in [one.code for one in warnings]


@pytest.mark.parametrize("model", ["congestion_factor", "endpoint_engines"])
def test_warnings_about_programs_and_sockets_do_not_apply_to_endpoint_engines(model):
    tree = fc.load_topology("pcie5_four_switches")
    part = replace(fc.graph([(0, 4), (4, 0)]), programs=("ordered_writes",))
    predictor = predictor_of(tree, model)
    notes = " | ".join(map(str, predictor.warnings(notes_of(predictor.predict_parts([part])))))
    for text in ("the programs of the graphs are ignored", "2 copies are between root complexes;"):
        assert (text in notes) == (model == "congestion_factor"), notes


@pytest.mark.parametrize("threads", [1, 3])
def test_error_of_a_block_is_raised_after_the_previous_blocks(threads):
    wrong = fc.graph([(0, 40)])
    predictor = predictor_of(TREE, threads=threads)
    tables = predictor.predict_parts([*parts()[:5], wrong, *parts()[5:]])
    previous = [next(tables) for _ in range(5)]
    assert [len(one.table) for one in previous] == [3] * 5
    with pytest.raises(InputError, match="40"):
        next(tables)


def test_each_thread_processes_one_item_and_few_items_are_prefetched():
    asked, running, most = 0, 0, 0
    lock, meeting = threading.Lock(), threading.Barrier(3, timeout=3600)

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
        # The barrier is passed only if three items are processed concurrently.
        meeting.wait()
        with lock:
            running -= 1
        return item * item

    results = prefetched_map(work, items(), threads=3)
    assert next(results) == 1
    assert asked <= 4
    assert list(results) == [item * item for item in range(2, 13)]
    assert most == 3


def test_notebooks_show_the_explained_columns_first():
    html = fc.predict("storm8", [(0, 1), (2, 1)], bandwidth="10 GB/s")._repr_html_()
    assert html.count("<th>") >= 8
    assert (
        html.index(">slowdown<") < html.index(">limited_by<") < html.index(">communication<") < html.index(">start_s<")
    )
