"""Forecasts of collective operations from Python and the command line, with logs and bad input."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.collectives.expected import expected_error
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.core.warnings import WarningCode
from fabricast.pcie.topology.regular import regular_tree
from tests.conftest import REPOSITORY

DATA = REPOSITORY / "tests" / "data" / "collectives"
PUBLISHED = published() / "collectives"
TOPOLOGY = str(PUBLISHED / "topologies" / "asus4.yaml")
KNOWN = {"cpu": "AMD EPYC", "gpu": "RTX PRO 6000", "nccl_version": "2.30.7"}
TABLE = """# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 1024 maxBytes 67108864
#  Rank  0 Group  0 Pid  1 on  node01 device  0 [0000:16:00] NVIDIA L40S
#  Rank  1 Group  0 Pid  1 on  node01 device  1 [0000:17:00] NVIDIA L40S
#  Rank  2 Group  0 Pid  1 on  node01 device  2 [0000:9a:00] NVIDIA L40S
#  Rank  3 Group  0 Pid  1 on  node01 device  3 [0000:9b:00] NVIDIA L40S
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        4096          1024     float     sum      -1    24.56    0.17    0.25       0    24.42    0.17    0.25       0
    16777216       4194304     float     sum      -1  1221.40   13.74   20.60       0  1222.62   13.72   20.58       0
"""


def run(*arguments):
    return CliRunner().invoke(app, ["collective", *map(str, arguments)])


def test_a_log_adds_measured_times_and_states_the_machine(tmp_path):
    log = tmp_path / "all_reduce.log"
    log.write_text(TABLE)
    forecast = fc.collective(TOPOLOGY, log=log, cpu="amd")
    assert forecast.operation == "all_reduce"
    assert forecast.table["size_bytes"].tolist() == [4096, 16777216]
    np.testing.assert_allclose(forecast.table["measured_us"], [24.56, 1221.40])
    np.testing.assert_allclose(
        forecast.table["measured_over_forecast"], forecast.table["measured_us"] / forecast.table["time_us"]
    )
    assert forecast.communicator.settings.capability == 8.9, "the log names the GPU"
    assert forecast.communicator.settings.version == (2, 30, 7)
    assert WarningCode.NCCL_SETTING_ASSUMED not in {warning.code for warning in forecast.warnings}


def test_a_debug_log_states_rings_transports_and_choices():
    forecast = fc.collective(TOPOLOGY, "all_reduce", log=DATA / "nccl_debug_info.log", gpu="L40S", cpu="amd")
    assert forecast.plan.source == "log"
    assert forecast.plan.channels == 2
    assert forecast.transports == {"P2P": ["0>1", "2>3"], "SHM": ["1>2", "3>0"]}
    table = forecast.table.set_index("size_bytes")
    assert table.loc[4096, "protocol"] == "ll"
    assert table.loc[16777216, "protocol"] == "simple"


def test_assumptions_are_warnings():
    codes = [warning.code for warning in fc.collective(TOPOLOGY, sizes=["1 MiB"]).warnings]
    assert codes.count(WarningCode.NCCL_SETTING_ASSUMED) == 3
    assert WarningCode.LATENCY_ASSUMED in codes
    assert WarningCode.HOST_RATES_UNKNOWN in codes
    table = fc.collective(TOPOLOGY, sizes=["1 MiB"]).table
    assert (table["earliest_us"] <= table["time_us"]).all()
    assert (table["time_us"] <= table["latest_us"]).all()


def test_geforce_has_no_direct_copies_without_a_modified_driver():
    stock = fc.collective(TOPOLOGY, sizes=["64 MiB"], gpu="RTX 4090", cpu="amd")
    assert set(stock.transports) == {"SHM"}
    assert any("driver" in warning.text for warning in stock.warnings)
    modified = fc.collective(TOPOLOGY, sizes=["64 MiB"], gpu="RTX 4090", cpu="amd", transport="p2p")
    assert set(modified.transports) == {"P2P"}
    assert modified.table["time_us"][0] < stock.table["time_us"][0]


def all_reduce_log(path, rows, ranks=4):
    lines = TABLE.splitlines()
    head = [line for line in lines[:-2] if "Rank" not in line or int(line.split()[2]) < ranks]
    head = [line.replace("nGpus 4", f"nGpus {ranks}") for line in head]
    factor = 2 * (ranks - 1) / ranks
    cells = [
        f"{size:12} {size // 4:13} float sum -1 {time:9.2f} {size / time / 1e3:8.2f} {factor * size / time / 1e3:8.2f} 0"
        for size, time in rows
    ]
    path.write_text("\n".join([*head, *cells]) + "\n")
    return path


def test_a_large_all_reduce_calibrates_other_operations_and_sizes(tmp_path):
    plain = fc.collective(TOPOLOGY, sizes=["64 MiB"], transport="shm", cpu="amd", gpu="L40S")
    slow = 2 * float(plain.table["time_us"].iloc[0])
    log = all_reduce_log(tmp_path / "all_reduce.log", [(64 << 20, slow)])
    known = {"transport": "shm", "cpu": "amd", "gpu": "L40S"}
    gathered = fc.collective(TOPOLOGY, "all_gather", log=log, sizes=["4 KiB", "64 MiB"], **known)
    uncalibrated = fc.collective(TOPOLOGY, "all_gather", sizes=["4 KiB", "64 MiB"], **known).table["time_us"]
    ratio = gathered.table["time_us"] / uncalibrated
    assert ratio.tolist() == pytest.approx([1.0, 2.0], rel=0.02)
    (text,) = [one.text for one in gathered.warnings if one.code is WarningCode.STEP_RATE_SCALED]
    assert re.match(r"the rates of copies are multiplied by 0\.(49|5)", text)
    assert "all_reduce of 64 MiB" in text


@pytest.mark.parametrize(
    ("rows", "ranks", "message"),
    [
        ([(64 << 20, 1e7)], 4, "another machine"),
        ([(64 << 20, 2e4)], 2, "2 ranks, expected 4"),
        ([(16 << 20, 5e3)], 4, "has tables of all_reduce, expected all_gather"),
    ],
)
def test_an_all_reduce_of_another_machine_calibrates_nothing(tmp_path, rows, ranks, message):
    log = all_reduce_log(tmp_path / "all_reduce.log", rows, ranks)
    known = {"transport": "shm", "cpu": "amd", "gpu": "L40S", "ranks": range(4)}
    with pytest.raises(InputError, match=message):
        fc.collective(TOPOLOGY, "all_gather", log=log, **known)


def test_staged_pairs_scale_copies_through_host_memory(tmp_path):
    staged = tmp_path / "staged.txt"
    staged.write_text(
        "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2      3\n"
        + "".join(f"     {i} " + " ".join("900.00" if i == j else "10.00" for j in range(4)) + "\n" for i in range(4))
    )
    known = {"sizes": ["64 MiB"], "transport": "shm", "cpu": "amd", "gpu": "L40S"}
    plain, scaled = (fc.collective([TOPOLOGY, *files], **known) for files in ([], [str(staged)]))
    assert scaled.table["time_us"][0] > 1.5 * plain.table["time_us"][0]
    (text,) = [one.text for one in scaled.warnings if one.code is WarningCode.STEP_RATE_SCALED]
    assert "without peer access" in text


def test_a_fallback_of_the_search_has_no_estimate_of_nccl():
    known = {"sizes": ["128 MiB"], "gpu": "RTX 5090", "transport": "p2p"}
    machine = "two_sockets_direct7"
    fallback, found = (fc.collective(machine, cpu=cpu, **known) for cpu in ("AMD EPYC 9575F", "intel_emerald_rapids"))
    assert fallback.plan.rings.is_fallback
    assert not found.plan.rings.is_fallback
    assert "nccl_time_us" not in fallback.table
    assert "nccl_time_us" in found.table


@pytest.mark.parametrize(("numa", "is_fallback"), [(None, False), ([0, 1, 2, 3], True)])
def test_a_machine_whose_rings_depend_on_the_numa_setting_says_so(numa, is_fallback):
    tree = replace(regular_tree("genoa4", (4,)), link_bytes_per_s=63e9)
    known = {"gpu": "RTX 5090", "cpu": "AMD EPYC 9124", "nccl_version": "2.26.2"}
    forecast = fc.collective(tree, sizes=["64 MiB"], numa=numa, **known)
    assert forecast.plan.rings.is_fallback == is_fallback
    assert any("NPS4" in one.text for one in forecast.warnings) != is_fallback
    older = fc.collective(tree, sizes=["64 MiB"], numa=numa, **{**known, "gpu": "RTX 4090"})
    assert not any("NPS4" in one.text for one in older.warnings), "its search tries lower speeds"


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather"])
def test_the_expected_error_is_that_of_the_state_of_information(operation):
    forecast = fc.collective(TOPOLOGY, operation, sizes=["1 KiB", "64 MiB"], **KNOWN)
    (text,) = [one.text for one in forecast.warnings if one.code is WarningCode.EXPECTED_ERROR]
    if operation == "all_gather":
        assert "unknown" in text
        return
    errors = [expected_error(is_measured=False, transport="SHM", size_bytes=size) for size in (1024, 64 << 20)]
    assert "without measured pairs" in text
    assert all(f"{100 * error.median:.2g} %" in text for error in errors)
    table = forecast.table
    assert (table["latest_us"] / table["time_us"]).tolist() == pytest.approx([one.longest for one in errors])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operation": "all_red"}, "operation"),
        ({"sizes": ["1 MiB", "1 KiB"]}, "increasing"),
        ({"sizes": []}, "sizes has 0 elements"),
        ({"ranks": [0, 0]}, "twice"),
        ({"ranks": [0]}, "expected 2 to 16"),
        ({"ranks": [0, 9]}, "ranks contains '9'"),
        ({"gpu": "Voodoo 2"}, "gpu"),
        ({"cpu": "6502"}, "cpu"),
        ({"numa": [0, 1]}, "2 NUMA nodes"),
        ({"nccl_version": "new"}, "nccl_version"),
        ({"transport": "pigeon"}, "transport"),
        ({"env": {"NCCL_PROTO": "x"}}, "NCCL_PROTO"),
        ({"table": 1}, "no log"),
        ({"log": DATA / "tuner.conf"}, "was written by no known program"),
        ({"log": DATA / "nccl_tests.log"}, "choose one"),
        ({"log": DATA / "nccl_tests.log", "operation": "all_reduce"}, "2 tables of all_reduce"),
        ({"log": DATA / "nccl_tests.log", "operation": "alltoall", "ranks": [0, 1]}, "4 ranks, expected 2"),
    ],
)
def test_bad_arguments_have_one_line(arguments, message):
    with pytest.raises(InputError, match=message) as error:
        fc.collective(TOPOLOGY, **arguments)
    assert "\n" not in str(error.value)


def test_the_command_prints_the_table_of_the_function():
    result = run(
        TOPOLOGY,
        "--cpu",
        "AMD EPYC",
        "--gpu",
        "RTX PRO 6000",
        "--nccl-version",
        "2.30.7",
        "--sizes",
        "1MiB 64MiB",
        "--format",
        "json",
        "--env",
        "NCCL_P2P_LEVEL=SYS",
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    forecast = fc.collective(TOPOLOGY, sizes=["1 MiB", "64 MiB"], env={"NCCL_P2P_LEVEL": "SYS"}, **KNOWN)
    assert [row["size_bytes"] for row in document["sizes"]] == [1 << 20, 1 << 26]
    np.testing.assert_allclose([row["time_us"] for row in document["sizes"]], forecast.table["time_us"])
    assert document["transports"] == {"P2P": ["0>1", "1>2", "2>3", "3>0"]}
    assert document["best_order"] == [0, 1, 2, 3]


def test_the_command_writes_files_that_nccl_reads(tmp_path):
    result = run(
        PUBLISHED / "topologies" / "turin9575-5090.yaml",
        PUBLISHED / "pairs.csv",
        "--system",
        "turin9575-5090",
        "--cpu",
        "amd",
        "--gpu",
        "RTX 5090",
        "--transport",
        "p2p",
        "--format",
        "table",
        "--write-tuner",
        tmp_path / "tuner.csv",
        "--write-graph",
        tmp_path / "graph.xml",
    )
    assert result.exit_code == 0, result.output
    assert "no ring fits, fallback" in result.stdout
    assert "no_graph_found" in result.stdout
    assert (tmp_path / "tuner.csv").read_text().startswith("# all_reduce of 8 GPUs")
    assert "NCCL_GRAPH_FILE" in (tmp_path / "graph.xml").read_text()
    again = tmp_path / "again.csv"
    run(
        PUBLISHED / "topologies" / "turin9575-5090.yaml",
        PUBLISHED / "pairs.csv",
        "--system",
        "turin9575-5090",
        "--cpu",
        "amd",
        "--gpu",
        "RTX 5090",
        "--transport",
        "p2p",
        "--write-tuner",
        again,
    )
    assert again.read_bytes() == (tmp_path / "tuner.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--numa", "a b"], "--numa is 'a b'"),
        (["--env", "NCCL_PROTO"], "--env is 'NCCL_PROTO'"),
        (["--env", "NCCL_PROTO=LL", "--env", "NCCL_PROTO=Simple"], "expected one value"),
        (["-o", "table.txt"], "ends in .csv or .parquet"),
        (["--write-graph", "graph.txt"], "ends in .xml"),
    ],
)
def test_bad_options_have_one_line(arguments, message):
    result = run(TOPOLOGY, *arguments)
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_an_algorithm_bandwidth_as_bus_bandwidth_is_rejected(tmp_path):
    log = tmp_path / "all_reduce.log"
    log.write_text(TABLE.replace("13.74   20.60", "13.74   13.74"))
    with pytest.raises(InputError, match="algorithm bandwidth"):
        fc.collective(TOPOLOGY, log=log)


def test_logs_of_several_hosts_are_refused(tmp_path):
    log = tmp_path / "all_reduce.log"
    log.write_text(TABLE.replace("node01 device  3", "node02 device  3"))
    with pytest.raises(InputError, match="2 hosts"):
        fc.collective(TOPOLOGY, log=log)


def test_root_complexes_of_a_processor_for_one_socket_are_one_numa_node():
    tree = PUBLISHED / "topologies" / "wrx90-A.yaml"
    known = {"sizes": ["16 KiB"], "gpu": "RTX PRO 6000", "transport": "p2p"}
    one = fc.collective(tree, cpu="AMD Threadripper PRO 7955WX", **known)
    assert not one.plan.rings.is_fallback
    assert one.plan.channels == 4
    assert fc.collective(tree, cpu="AMD EPYC 9575F", **known).plan.rings.is_fallback
    assert not fc.collective(tree, cpu="AMD EPYC 9575F", numa=0, **known).plan.rings.is_fallback
