"""Causes of lost time on known machines, settings, and files with better choices."""

import numpy as np
import pytest

import fabricast as fc
from fabricast.collectives.alternatives import times_with
from fabricast.collectives.diagnosis import Cause, diagnose_collective
from fabricast.collectives.evidence.measured import measured_machine
from fabricast.collectives.forecast import forecast_operation
from fabricast.collectives.settings_files import graph_file_text, tuner_file_text, tuner_rules
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.nccl.costs import Operation
from fabricast.nccl.graph_files import graph_text, read_graph
from fabricast.nccl.search import SearchGraph
from fabricast.nccl.system import PathType
from tests.unit.diagnosis.test_diagnose import nccl_tests

PAIRS = "source,target,kind,value,unit\n"


def causes(system, operation=Operation.ALL_REDUCE):
    found = diagnose_collective(forecast_operation(measured_machine(system), operation))
    return {finding.cause: finding for finding in found}


def test_host_memory_between_pairs_is_named_with_the_setting():
    # Case shm-for-node-pairs: NCCL_P2P_LEVEL=SYS raised 30.3 to 39.3 GB/s.
    finding = causes("asus4")[Cause.HOST_MEMORY_TRANSPORT]
    assert finding.remedy == "NCCL_P2P_LEVEL=SYS"
    assert "1>2 3>0" in finding.text
    assert finding.gain == pytest.approx(39.3 / 30.3, rel=0.15)
    assert Cause.RING_ORDER not in causes("asus4")


def test_a_search_without_a_ring_is_named_with_the_sizes():
    # Case no-graph-found: Simple from 4 KiB on, LL would be faster up to about 256 KiB.
    finding = causes("turin9575-5090")[Cause.NO_GRAPH_FOUND]
    assert finding.sizes[0] == 4096
    assert finding.sizes[1] == pytest.approx(256 * 1024, rel=1)
    assert "NCCL_PROTO=LL" in finding.remedy
    assert "NCCL_GRAPH_FILE" in finding.remedy
    assert finding.gain > 1.3


def test_divided_writes_are_a_hazard_of_alltoall_but_not_of_the_ring():
    # Case posted-write-collapse.
    assert Cause.DIVIDED_WRITES in causes("asus8", Operation.ALLTOALL)
    assert Cause.DIVIDED_WRITES not in causes("asus8")


def test_many_copies_between_root_ports_need_a_measurement():
    # Case p2p-through-bad-cpus: alltoall fell from 18 to 2 GB/s while the ring became faster.
    finding = causes("chlc_p2p", Operation.ALLTOALL)[Cause.ROOT_PORT_COPIES]
    assert "not known" in finding.text
    assert "PXB" in finding.remedy
    assert Cause.ROOT_PORT_COPIES not in causes("chlc_p2p")


def test_links_between_sockets_are_named():
    # Case sockets-and-numa.
    finding = causes("chlc_p2p")[Cause.BETWEEN_SOCKETS]
    assert "3>4 7>0" in finding.text
    assert "NPS" in finding.remedy


def test_unknown_rates_of_host_memory_are_named():
    # Case numa-per-socket.
    finding = causes("sm02")[Cause.HOST_MEMORY_RATE]
    assert "unknown" in finding.text
    assert "NPS" in finding.remedy


@pytest.mark.parametrize("system", ["pptest", "wrx90-A"])
def test_a_good_machine_has_no_finding_for_large_sizes(system):
    assert [cause for cause in causes(system) if cause != Cause.PROTOCOL_CHOICE] == []


def write_pairs(tmp_path, one_way, both_ways=None):
    rows = [f"*,*,one_way,{one_way},GB/s\n"]
    if both_ways is not None:
        rows.append(f"*,*,both_ways,{both_ways},GB/s\n")
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS + "".join(rows))
    return path


@pytest.mark.slow
def test_pairs_that_do_not_reach_the_switch_are_named(tmp_path):
    # Case acs-on: pairs below one switch reached 50 GB/s both ways in place of 103.
    path = write_pairs(tmp_path, 26, 50)
    forecast = fc.collective("crossed_virtual_switches", measurements=path, cpu="amd", gpu="RTX PRO 6000")
    found = {finding.cause: finding for finding in fc.diagnose_collective(forecast)}
    assert "ACS" in found[Cause.SLOW_PAIRS].text
    path = write_pairs(tmp_path, 53.5, 103)
    forecast = fc.collective("crossed_virtual_switches", measurements=path, cpu="amd", gpu="RTX PRO 6000")
    assert Cause.SLOW_PAIRS not in {finding.cause for finding in fc.diagnose_collective(forecast)}


def test_a_bad_order_is_named_with_its_gain(tmp_path):
    tree = published() / "collectives" / "topologies" / "wrx90-A.yaml"
    known = {"sizes": ["64 MiB"], "transport": "p2p", "cpu": "amd", "gpu": "RTX PRO 6000", "numa": 0}
    bad = SearchGraph(((0, 4, 1, 5, 2, 6, 3, 7),) * 2, 24.0, PathType.PHB)
    (tmp_path / "graph.xml").write_text(graph_text(bad, "alternates between switches"))
    forecast = fc.collective(tree, graph_file=tmp_path / "graph.xml", **known)
    assert forecast.gain_of_order == pytest.approx(4, rel=0.05), "four copies share each uplink"
    finding = next(one for one in fc.diagnose_collective(forecast) if one.cause == Cause.RING_ORDER)
    assert finding.gain == forecast.gain_of_order
    assert len(forecast.shared_by) == 4
    better = fc.collective(tree, **known)
    assert better.gain_of_order == 1.0
    assert better.table["time_us"][0] < forecast.table["time_us"][0]


def test_times_with_the_same_settings_are_those_of_the_forecast():
    forecast = forecast_operation(measured_machine("asus4"), Operation.ALL_REDUCE)
    same = times_with(forecast, forecast.communicator)
    np.testing.assert_allclose(same * 1e6, forecast.table["time_us"])


def test_written_files_are_read_back(tmp_path):
    forecast = forecast_operation(measured_machine("turin9575-5090"), Operation.ALL_REDUCE)
    rules = tuner_rules(forecast)
    lines = [line for line in tuner_file_text(forecast).splitlines() if not line.startswith("#")]
    assert [line.split(",")[3:5] for line in lines] == [[rule.algorithm, rule.protocol] for rule in rules]
    assert [rule.protocol for rule in rules] == ["ll", "simple"]
    for place, row in forecast.table.iterrows():
        first = next(rule for rule in rules if rule.least_bytes <= row["size_bytes"] <= rule.most_bytes)
        assert first.protocol == row["best_protocol"], place
    (tmp_path / "graph.xml").write_text(graph_file_text(forecast))
    graph = read_graph(tmp_path / "graph.xml")
    assert graph.orders[0] == forecast.orders.best
    assert not graph.is_fallback
    assert graph.gb_per_s == 15.0
    # The file's own speed makes NCCL choose LL for small messages again.
    loaded = fc.collective(
        forecast.communicator.tree,
        sizes=["16 KiB"],
        cpu="amd",
        gpu="RTX 5090",
        transport="p2p",
        graph_file=tmp_path / "graph.xml",
    )
    assert loaded.table["protocol"][0] == "ll"


def test_sends_and_receives_have_no_tuner_rules():
    forecast = forecast_operation(measured_machine("pptest"), Operation.ALLTOALL)
    with pytest.raises(InputError, match="no rules"):
        tuner_rules(forecast)


@pytest.mark.slow
def test_a_log_that_host_memory_does_not_permit_asks_for_the_transports(tmp_path):
    times = {2**10: 26.0, 2**20: 60.0, 2**26: 2500.0}
    (tmp_path / "ar.log").write_text(nccl_tests("all_reduce", 8, times))
    inputs = {"log": tmp_path / "ar.log", "cpu": "Intel Xeon Platinum 8358"}
    forecast = fc.collective("pcie5_four_switches", **inputs)
    assert forecast.transports["SHM"] and forecast.gain_of_order >= 1.0
    found = {finding.cause: finding for finding in fc.diagnose_collective(forecast)}
    assert "the log probably uses direct copies" in found[Cause.FASTER_THAN_FORECAST].text
    # Advice that rests on the refuted transport is not given.
    assert not {Cause.HOST_MEMORY_TRANSPORT, Cause.HOST_MEMORY_RATE} & found.keys()
    # A stated transport is not contradicted, and direct copies need no such finding.
    for name, value in (("NCCL_P2P_LEVEL", "SYS"), ("NCCL_P2P_DISABLE", "1")):
        stated = fc.collective("pcie5_four_switches", env={name: value}, **inputs)
        assert Cause.FASTER_THAN_FORECAST not in {finding.cause for finding in fc.diagnose_collective(stated)}, name
