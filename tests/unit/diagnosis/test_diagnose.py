"""Reconstructions of public bug reports, from pasted text to the cause."""

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.warnings import WarningCode
from fabricast.pcie.topology.files import tree_yaml
from tests.machines import import_machine
from tests.unit.diagnosis.pasted import debug_log, measured, nccl_tests, peer_test
from tests.unit.pcie.topology.test_listings import groups, lspci, matrix

DATA = Path(__file__).parents[2] / "data" / "collectives"
PAIRS_OF_FOUR = groups((2, "PIX"), (2, "NODE"))
EIGHT_ON_TWO_SOCKETS = (groups((4, "NODE"), (2, "SYS")), [0] * 4 + [1] * 4)


def test_host_memory_between_pairs_below_different_switches(causes):
    files = {
        "topo.txt": matrix(PAIRS_OF_FOUR, numa=[0] * 4),
        "all_reduce.log": nccl_tests("all_reduce", 4, {33554432: 1661.11}, "NVIDIA RTX PRO 6000"),
    }
    found = causes(files, cpu="amd")["host_memory_transport"]
    assert found.remedy == "NCCL_P2P_LEVEL=SYS"
    assert re.search(r"all_reduce\.log:\d+", found.origin)


def test_no_ring_between_two_sockets(causes):
    classes, numa = EIGHT_ON_TWO_SOCKETS
    files = {
        "topo.txt": matrix(classes, numa=numa),
        "all_reduce.log": nccl_tests("all_reduce", 8, measured("turin9575-5090"), "NVIDIA GeForce RTX 5090"),
        "nccl.log": "n:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n",
    }
    found = causes(files, cpu="amd")["no_graph_found"]
    assert "from 4 KiB" in found.text


def test_many_copies_between_root_ports(causes):
    files = {
        "topo.txt": matrix(groups((4, "PHB")), numa=[0] * 4),
        "alltoall.log": nccl_tests("alltoall", 4, {1 << 26: 25_000.0}, "NVIDIA A40"),
        "nccl.log": debug_log(4, [0, 1, 2, 3], env="NCCL_P2P_LEVEL set by environment to SYS"),
    }
    assert "not known" in causes(files, cpu="amd")["root_port_copies"].text


def test_access_control_below_a_switch(causes):
    rates = [[25.0] * 3 for _ in range(3)]
    found = causes({"lspci.txt": lspci(redirect="+"), "p2p.txt": peer_test(rates)})
    assert "0000:02:00.0" in found["access_control"].text
    place, _, line = found["access_control"].origin.rpartition(":")
    assert place.endswith("lspci.txt")
    assert lspci(redirect="+").splitlines()[int(line) - 1].startswith("02:00.0 ")


def test_a_link_with_fewer_lanes(causes):
    found = causes({"lspci.txt": lspci(gpu_status="Speed 16GT/s, Width x4 (downgraded)")})["downgraded_link"]
    assert "x4 of x16" in found.text
    assert lspci().splitlines()[int(found.origin.rpartition(":")[2]) - 1].startswith("03:00.0 ")
    assert "LnkSta" in found.remedy


def test_one_slow_gpu(causes):
    rates = [[3.9 if 6 in (one, other) else 25.9 for other in range(7)] for one in range(7)]
    found = causes({"topo.txt": matrix(groups((7, "PHB"))), "p2p.txt": peer_test(rates)}, gpu="RTX 4090")
    assert "GPU 6" in found["slow_endpoint"].text


def test_one_slow_direction(causes):
    rates = [[20.0 if (one, other) == (2, 1) else 25.9 for other in range(4)] for one in range(4)]
    found = causes({"topo.txt": matrix(groups((4, "PHB"))), "p2p.txt": peer_test(rates)}, gpu="RTX 4090")
    assert "2>1" in found["slow_direction"].text


def test_pairs_without_peer_access(causes):
    rates = [[11.0] * 2 for _ in range(2)]
    text = peer_test(rates, disabled=[(0, 1), (1, 0)])
    files = {"topo.txt": matrix(groups((2, "PHB"))), "p2p.txt": text}
    found = causes(files, gpu="A100 PCIe")["no_peer_access"]
    assert "2 pairs" in found.text
    assert found.origin.endswith(":2")
    # What the driver of GeForce cards does not permit is no cause that a setting changes.
    assert "no_peer_access" not in causes(files, gpu="RTX 4090")


def test_direct_copies_that_nccl_states_to_be_disabled(causes):
    log = "n:1:2 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message.\n"
    found = causes({"topo.txt": matrix(groups((2, "PHB"))), "nccl.log": log})["no_peer_access"]
    assert "between GPUs 0 and 1: data" in found.text


def test_hops_through_host_memory_in_a_log_without_table(causes):
    files = {"topo.txt": matrix(groups((2, "PHB")), numa=[0, 0]), "nccl.log": debug_log(2, [0, 1], direct=False)}
    finding = causes(files)["no_direct_copies"]
    assert "all 2 hops" in finding.text
    name, _, line = finding.origin.rpartition(":")
    assert "via SHM" in Path(name).read_text().splitlines()[int(line) - 1]
    files["nccl.log"] = debug_log(2, [0, 1], direct=False, env="NCCL_P2P_DISABLE set by environment to 1")
    assert causes(files)["no_direct_copies"].remedy == "remove NCCL_P2P_DISABLE=1"
    files["nccl.log"] = debug_log(2, [0, 1])
    assert "no_direct_copies" not in causes(files)


def test_a_network_card_of_another_file_is_compared(causes):
    classes = [["X", "PIX", "PHB", "SYS"], ["PIX", "X", "PHB", "SYS"], ["PHB", "PHB", "X", "SYS"], ["SYS"] * 3 + ["X"]]
    files = {"lspci.txt": lspci(), "topo.txt": matrix(classes, numa=[0, 0, 0], cards=["NIC0"])}
    # All GPUs are far from the only card: NUMA nodes within a socket may be the reason, so it is no cause.
    assert "card_on_other_socket" not in causes(files)


def test_a_network_card_on_the_other_socket(causes, tmp_path):
    classes = [
        ["X", "PIX", "SYS", "SYS"],
        ["PIX", "X", "SYS", "SYS"],
        ["SYS", "SYS", "X", "PIX"],
        ["SYS", "SYS", "PIX", "X"],
    ]
    topology = matrix(classes, numa=[0, 0, 1], cards=["NIC0"])
    (tmp_path / "listing.txt").write_text(topology)
    found = fc.diagnose([tmp_path / "listing.txt"])
    # Only runs on several nodes use network cards.
    assert not found.findings and any(
        text.startswith("GPUs 0, 1 reach every network card") for text in found.statements
    )
    run = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 6 nNodes 2 localRanks 3 localRank 0 MNNVL 0\n"
    cause = causes({"listing.txt": topology, "nccl.log": run})["card_on_other_socket"]
    assert "GPUs 0, 1" in cause.text
    tree = import_machine([tmp_path / "listing.txt"], network_cards=True)
    for one in (tree, replace(tree, warnings=())):
        assert causes({"machine.yaml": tree_yaml(one), "nccl.log": run})["card_on_other_socket"].text == cause.text


def test_a_ring_that_alternates_between_switches(causes):
    files = {
        "topo.txt": matrix(groups((4, "PIX"), (2, "NODE")), numa=[0] * 8),
        "all_reduce.log": nccl_tests("all_reduce", 8, {1 << 26: 10_000.0}, "NVIDIA RTX PRO 6000"),
        "nccl.log": debug_log(8, [0, 4, 1, 5, 2, 6, 3, 7], env="NCCL_P2P_LEVEL set by environment to SYS"),
    }
    found = causes(files, cpu="amd")["ring_order"]
    assert "0 1 2 3 4 5 6 7" in found.text
    assert found.gain > 3


def test_a_slow_protocol_at_one_mebibyte(causes):
    files = {
        "topo.txt": matrix(groups((4, "PIX"), (2, "NODE")), numa=[0] * 8),
        "all_reduce.log": nccl_tests("all_reduce", 8, measured("wrx90-A"), "NVIDIA RTX PRO 6000"),
        "nccl.log": debug_log(8, list(range(8)), env="NCCL_P2P_LEVEL set by environment to SYS"),
    }
    found = causes(files, cpu="amd")["protocol_choice"]
    assert "1 MiB" in found.text
    assert "tuner" in found.remedy


@pytest.mark.slow
def test_four_gpus_below_one_uplink_through_host_memory(causes):
    files = {
        "topo.txt": matrix(groups((4, "PXB"), (2, "SYS")), numa=[0] * 4 + [1] * 4),
        "all_reduce.log": nccl_tests("all_reduce", 8, {1 << 27: 60_000.0}, "NVIDIA GeForce RTX 4090"),
    }
    # The driver of GeForce cards permits no direct copies: no setting changes that.
    assert "host_memory_transport" not in causes(files, cpu="Intel Xeon")
    files["all_reduce.log"] = files["all_reduce.log"].replace("GeForce RTX 4090", "L40S")
    assert "host_memory_transport" in causes(files, cpu="Intel Xeon", gpu="L40S")


def test_a_log_without_direct_copies_is_not_a_matter_of_the_ring_order(causes):
    """All hops use host memory although NCCL's rule would copy directly: the order changes nothing."""
    found = causes(
        {
            "topo.txt": matrix(groups((2, "PIX"), (2, "PHB"), (2, "SYS")), numa=[0] * 4 + [1] * 4),
            "p2p.txt": peer_test([[25.2] * 8 for _ in range(8)]),
            "all_reduce.log": debug_log(8, list(range(8)), direct=False)
            + nccl_tests("all_reduce", 8, {2**26: 30_000.0}, "NVIDIA L40S"),
        },
        cpu="amd",
    )
    assert "ring_order" not in found
    text = found["host_memory_transport"].text
    assert "a setting or the container prevents them" in text
    assert "NCCL_P2P_DISABLE" in found["host_memory_transport"].remedy


def test_redirection_at_a_root_port_is_no_finding(causes):
    text = lspci().replace(
        "NUMA node: 0\n\tBus: primary=00, secondary=05",
        "NUMA node: 0\n\tACSCtl: SrcValid+ ReqRedir+ CmpltRedir+\n\tBus: primary=00, secondary=05",
    )
    assert "ReqRedir+" in text
    assert causes({"lspci.txt": text}) == {}


def test_measured_peer_access_counts_more_than_the_model_of_the_gpu(causes, tmp_path):
    granted = "Device=0 CAN Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\n"
    files = {"topo.txt": matrix(groups((2, "PHB"))), "p2p.txt": granted + peer_test([[26.5] * 2] * 2)}
    assert causes(files, gpu="RTX 4090") == {}
    tree = import_machine([tmp_path / "topo.txt"], gpu="RTX 4090")
    assert tree.transport("0", "1") == "staged"
    table = fc.predict(tree, [(0, 1)], measurements=tmp_path / "p2p.txt")
    assert table["elapsed_s"][0] == pytest.approx(300 * 2**20 / 26.5e9)
    assert WarningCode.PEER_ACCESS_ASSUMED not in {one.code for one in table.attrs["warnings"]}
    refused = "\tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n"
    found = causes(files | {"access.txt": refused})["files_contradict"]
    assert re.search(r"p2p\.txt:1 states that GPU 0>1 and 1 more pairs has peer access, but .*access\.txt", found.text)


def test_a_good_machine_has_no_finding(causes):
    files = {
        "topo.txt": matrix(groups((4, "PHB")), numa=[0] * 4),
        "p2p.txt": peer_test([[25.2] * 4 for _ in range(4)]),
        "all_reduce.log": nccl_tests(
            "all_reduce", 4, {size: time for size, time in measured("pptest").items() if size >= 1 << 20}, "NVIDIA L40S"
        ),
        "nccl.log": debug_log(4, [0, 1, 2, 3], channels=1, speed=20.0, env="NCCL_P2P_LEVEL set by environment to SYS"),
    }
    assert causes(files, cpu="amd") == {}


def test_the_command_exits_with_1_if_there_are_findings(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci(redirect="+"))
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "lspci.txt")])
    assert result.exit_code == 1
    assert "a fault is stated: access control" in result.stdout
    (tmp_path / "lspci.txt").write_text(lspci())
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "lspci.txt")])
    assert result.exit_code == 0
    assert result.stdout.startswith("nothing could be judged: nothing is measured")


@pytest.mark.slow
def test_logs_of_many_lines_need_bounded_memory(tmp_path):
    """A log of 20 MB needs less than 5 times its size; 100 MB then stay below 500 MB."""
    noise = "".join(
        f"n:1:2 [0] NCCL INFO Channel {number % 4:02}/0 : 0[0] -> 1[1] via P2P/CUMEM\n" for number in range(1000)
    )
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PHB"))))
    (tmp_path / "nccl.log").write_text(debug_log(2, [0, 1], channels=1) + noise * 300)
    size = (tmp_path / "nccl.log").stat().st_size
    tracemalloc.start()
    try:
        fc.diagnose([tmp_path / "topo.txt", tmp_path / "nccl.log"], gpu="A100")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * size


def test_a_yaml_topology_is_used_beside_logs_and_peer_access(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    fc.load_topology(tmp_path / "topo.txt")
    run = CliRunner().invoke(
        app, ["topology", "import", str(tmp_path / "topo.txt"), "--link", "gen4x16", "-o", str(tmp_path / "m.yaml")]
    )
    assert run.exit_code == 0, run.output
    # A log of NCCL with lines about the topology has other content as well.
    (tmp_path / "run.log").write_text((DATA / "nccl_debug_info.log").read_text())
    assert fc.diagnose([tmp_path / "m.yaml", tmp_path / "run.log"]).tree.name == "topo"
    (tmp_path / "p2p.txt").write_text(
        " GPU0 GPU1 GPU2 GPU3\n"
        + "".join(
            f"GPU{one} " + " ".join("X" if one == other else "CNS" for other in range(4)) + "\n" for one in range(4)
        )
    )
    (found,) = fc.diagnose([tmp_path / "m.yaml", tmp_path / "p2p.txt"], gpu="L40S").findings
    assert (found.cause, found.text.split(" (")[0]) == ("no_peer_access", "12 of 12 pairs have no peer access")
    assert not fc.diagnose([tmp_path / "m.yaml", tmp_path / "topo.txt"]).findings


def test_the_variable_that_disables_direct_copies_is_named(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    log = debug_log(4, [0, 1, 2, 3], direct=False, env="NCCL_P2P_DISABLE set by environment to 1")
    times = {1 << power: 30 + (1 << power) / 8e3 for power in range(10, 26)}
    (tmp_path / "run.log").write_text(log + nccl_tests("all_reduce", 4, times))
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "run.log"], link="gen4x16", cpu="amd").findings
    (cause,) = [one for one in found if one.cause == "host_memory_transport"]
    assert "because NCCL_P2P_DISABLE=1 is set" in cause.text
    assert cause.remedy == "unset NCCL_P2P_DISABLE and set NCCL_P2P_LEVEL=SYS"


def test_unknown_gpus_of_a_log_are_no_error(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    times = {1 << power: 30 + (1 << power) / 8e3 for power in range(10, 26)}
    for gpu, text in (
        ("AMD Instinct MI300X", "uses RCCL"),
        ("Some GPU 9", "GPU model 'Some GPU 9' of the log is unknown"),
    ):
        (tmp_path / "run.log").write_text(nccl_tests("all_reduce", 4, times, gpu=gpu))
        result = fc.diagnose([tmp_path / "topo.txt", tmp_path / "run.log"], link="gen5x16", cpu="amd")
        assert any(text in one.text for one in result.warnings), gpu
