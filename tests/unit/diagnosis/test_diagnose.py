"""Reconstructions of public bug reports, from pasted text to the cause."""

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.collectives.evidence.measured import measured_cases
from fabricast.collectives.inputs import CollectiveInputs, prepare
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.nccl.costs import Operation, bus_factor
from fabricast.pcie.topology.files import tree_yaml
from fabricast.pcie.topology.listings.importing import import_machine
from tests.unit.pcie.topology.test_listings import groups, lspci, matrix

DATA = Path(__file__).parents[2] / "data" / "collectives"
PAIRS_OF_FOUR = groups((2, "PIX"), (2, "NODE"))
EIGHT_ON_TWO_SOCKETS = (groups((4, "NODE"), (2, "SYS")), [0] * 4 + [1] * 4)


def peer_test(rates, *, disabled=()):
    """Return output of p2pBandwidthLatencyTest with one-way rates in GB/s."""
    count = len(rates)
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines.extend(f"Device={one} CANNOT Access Peer Device={other}" for one, other in disabled)
    lines.append("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)")
    lines.append("   D\\D" + "".join(f"{column:7}" for column in range(count)))
    for row in range(count):
        cells = [900.0 if row == column else rates[row][column] for column in range(count)]
        lines.append(f"{row:6}" + "".join(f"{cell:7.2f}" for cell in cells))
    return "\n".join(lines) + "\n"


def nccl_tests(operation, ranks, times_us, gpu="NVIDIA L40S"):
    """Return output of nccl-tests with the time of each size."""
    lines = [
        "# nccl-tests version 2.17.1 nccl-headers=23007 nccl-library=23007",
        f"# Collective test starting: {operation}_perf",
    ]
    lines.extend(
        f"#  Rank {rank:2} Group  0 Pid {41207:6} on node01 device {rank:2} [0000:{16 + rank:02x}:00] {gpu}"
        for rank in range(ranks)
    )
    lines.append("#       size         count      type   redop    root     time   algbw   busbw  #wrong")
    for size, time in times_us.items():
        rate = size / time / 1e3
        lines.append(
            f"{size:12} {size // 4:12} float sum -1 {time:10.2f} {rate:.2f} {rate * bus_factor(Operation(operation), ranks):.2f} 0"
        )
    return "\n".join(lines) + "\n# Out of bounds values : 0 OK\n"


def measured(system, operation="all_reduce"):
    """Return the measured times of a public machine in us."""
    case = next(case for case in measured_cases() if case.system == system and case.operation == operation)
    order = np.argsort(case.size_bytes, kind="stable")
    return {int(case.size_bytes[place]): case.measured_s[place] * 1e6 for place in order}


def debug_log(ranks, order, *, direct=True, channels=2, speed=24.0, kind="PHB", env=""):
    """Return lines of NCCL_DEBUG=INFO."""
    lines = [
        f"n:1:2 [{rank}] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev {rank} busId {rank + 1}000 commId 0x7 - Init COMPLETE"
        for rank in range(ranks)
    ]
    lines += [
        f"n:1:2 [0] NCCL INFO Channel {channel:02}/{2 * channels:02} : {' '.join(map(str, order))}"
        for channel in range(2 * channels)
    ]
    lines.append(
        f"n:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels {channels}, bw {speed:.6f}/{speed:.6f}, type {kind}/PIX, sameChannels 1"
    )
    for source, target in zip(order, [*order[1:], order[0]], strict=True):
        via = "P2P/CUMEM" if direct else "SHM/direct/direct"
        lines.append(f"n:1:2 [{source}] NCCL INFO Channel 00/0 : {source}[{source}] -> {target}[{target}] via {via}")
    lines.append(f"n:1:2 [0] NCCL INFO {2 * channels} coll channels, 2 p2p channels, 2 p2p channels per peer")
    if env:
        lines.append(f"n:1:2 [0] NCCL INFO {env}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def causes(tmp_path):
    """Return a function that writes files and returns the causes of a diagnosis by name."""

    def diagnose(files, **known):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        diagnosis = fc.diagnose([tmp_path / name for name in files], **known)
        assert len(diagnosis.findings) <= 10
        costs = [finding.cost for finding in diagnosis.findings]
        assert costs == sorted(costs, reverse=True)
        return {finding.cause: finding for finding in reversed(diagnosis.findings)}

    return diagnose


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
    found = causes({"topo.txt": matrix(groups((2, "PHB"))), "p2p.txt": text}, gpu="RTX 4090")["no_peer_access"]
    assert "2 pairs" in found.text
    assert found.origin.endswith(":2")


def test_direct_copies_that_nccl_states_to_be_disabled(causes):
    log = "n:1:2 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message.\n"
    found = causes({"topo.txt": matrix(groups((2, "PHB"))), "nccl.log": log})["no_peer_access"]
    assert "1 and 0" in found.text


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
    assert "GPUs 0, 1, 2" in causes(files)["card_on_other_socket"].text


def test_a_network_card_on_the_other_socket(causes, tmp_path):
    classes = [["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]]
    topology = matrix(classes, numa=[0, 0], cards=["NIC0"])
    found = causes({"topo.txt": topology})["card_on_other_socket"]
    assert "GPUs 0, 1" in found.text
    (tmp_path / "listing.txt").write_text(topology)
    tree = import_machine([tmp_path / "listing.txt"], network_cards=True)
    for one in (tree, replace(tree, warnings=())):
        assert causes({"machine.yaml": tree_yaml(one)})["card_on_other_socket"].text == found.text


def test_a_ring_that_alternates_between_switches(causes):
    files = {
        "topo.txt": matrix(groups((4, "PIX"), (2, "NODE")), numa=[0] * 8),
        "all_reduce.log": nccl_tests("all_reduce", 8, {1 << 26: 10_000.0}, "NVIDIA RTX PRO 6000"),
        "nccl.log": debug_log(8, [0, 4, 1, 5, 2, 6, 3, 7], env="NCCL_P2P_LEVEL set by environment to SYS"),
    }
    found = causes(files, cpu="amd")["ring_order"]
    assert "0 1 2 3 4 5 6 7" in found.text
    assert found.cost > 3


def test_a_slow_protocol_at_one_mebibyte(causes):
    files = {
        "topo.txt": matrix(groups((4, "PIX"), (2, "NODE")), numa=[0] * 8),
        "all_reduce.log": nccl_tests("all_reduce", 8, measured("wrx90-A"), "NVIDIA RTX PRO 6000"),
        "nccl.log": debug_log(8, list(range(8)), env="NCCL_P2P_LEVEL set by environment to SYS"),
    }
    found = causes(files, cpu="amd")["protocol_choice"]
    assert "1 MiB" in found.text
    assert "tuner" in found.remedy


def test_four_gpus_below_one_uplink_through_host_memory(causes):
    files = {
        "topo.txt": matrix(groups((4, "PXB"), (2, "SYS")), numa=[0] * 4 + [1] * 4),
        "all_reduce.log": nccl_tests("all_reduce", 8, {1 << 27: 60_000.0}, "NVIDIA GeForce RTX 4090"),
    }
    found = causes(files, cpu="Intel Xeon")
    assert "driver" in found["host_memory_transport"].text


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
    )  # fmt: skip
    assert "ring_order" not in found
    text = found["host_memory_transport"].text
    assert "a setting, the driver or the machine prevents them" in text
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
    with pytest.raises(InputError, match=r"p2p\.txt: states that GPU 0>1 has peer access, but .*access\.txt"):
        causes(files | {"access.txt": refused})


def test_a_good_machine_has_no_finding(causes):
    files = {
        "topo.txt": matrix(groups((4, "PHB")), numa=[0] * 4),
        "p2p.txt": peer_test([[25.2] * 4 for _ in range(4)]),
        "all_reduce.log": nccl_tests("all_reduce", 4, {size: time for size, time in measured("pptest").items() if size >= 1 << 20}, "NVIDIA L40S"),
        "nccl.log": debug_log(4, [0, 1, 2, 3], channels=1, speed=20.0, env="NCCL_P2P_LEVEL set by environment to SYS"),
    }  # fmt: skip
    assert causes(files, cpu="amd") == {}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"p2p.txt": peer_test([[25.0] * 2] * 2)}, "describe no topology"),
        ({"notes.txt": "hello\n", "empty.txt": ""}, "by no known program"),
    ],
)  # fmt: skip
def test_bad_bundles_have_one_line(causes, files, message):
    with pytest.raises(InputError, match=message) as error:
        causes(files)
    assert "\n" not in str(error.value)


def test_files_of_other_programs_are_named_and_the_others_used(tmp_path):
    texts = {"topo.txt": matrix(groups((2, "PHB"))), "notes.txt": "hello\n", "empty.txt": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sources = fc.diagnose([tmp_path / name for name in texts], link="gen4x16").sources
    assert [source.partition(": ")[2] for source in sources] == [
        "topology", "not used, written by no known program", "not used, empty",
    ]  # fmt: skip


def test_files_of_other_commands_are_named_and_the_others_used(tmp_path):
    texts = {"topo.txt": matrix(groups((2, "PHB"))), "topology.conf": "SwitchName=s1 Nodes=node[0-3]\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sources = fc.diagnose([tmp_path / name for name in texts], link="gen4x16").sources
    assert sources[1].endswith("not used, resembles topology.conf of Slurm: 'fabricast map --hosts' reads it")
    with pytest.raises(InputError, match=r"resembles topology\.conf of Slurm \('fabricast map --hosts'\)"):
        fc.diagnose([tmp_path / "topology.conf"])


def test_a_log_of_some_gpus_is_compared(tmp_path):
    half = nccl_tests("all_reduce", 4, {33554432: 9e4})
    assert "[0000:10:00]" in half
    (tmp_path / "log.txt").write_text(half)
    # Without PCI addresses of the topology, device numbers decide, with a warning.
    (tmp_path / "topo.txt").write_text(matrix(groups((4, "PIX"), (2, "SYS"))))
    files = [tmp_path / "topo.txt", tmp_path / "log.txt"]
    diagnosis = fc.diagnose(files, link="gen4x16", cpu="amd")
    (assumed,) = [one.text for one in diagnosis.warnings if one.code is WarningCode.RANKS_ASSUMED]
    assert assumed.startswith("the log has 4 of 8 GPUs: 0 1 2 3 are assumed")
    # With them, the addresses decide: here GPUs 4 to 7, although their device numbers are 0 to 3.
    buses = [f"{0x10 + 4 * (gpu < 4) + gpu % 4:02x}" for gpu in range(8)]
    yaml = tree_yaml(import_machine([tmp_path / "topo.txt"], link="gen4x16"))
    for gpu, bus in enumerate(buses):
        yaml = yaml.replace(f'label: "GPU{gpu}"', f'label: "0000:{bus}:00.0"')
    (tmp_path / "machine.yaml").write_text(yaml)
    inputs = CollectiveInputs(log=tmp_path / "log.txt", cpu="amd")
    prepared = prepare(fc.load_topology(tmp_path / "machine.yaml"), None, inputs)
    assert prepared.machine.ranks == ("4", "5", "6", "7")
    assert all(one.code is not WarningCode.RANKS_ASSUMED for one in prepared.machine.warnings)
    # nvidia-smi prints the addresses, too.
    table = "".join(f"| {gpu}  NVIDIA L40S     Off | 00000000:{bus}:00.0 Off | 0 |\n" for gpu, bus in enumerate(buses))
    (tmp_path / "smi.txt").write_text("| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA Version: 12.4 |\n" + table)
    diagnosis = fc.diagnose([*files, tmp_path / "smi.txt"], link="gen4x16", cpu="amd")
    assert all(one.code is not WarningCode.RANKS_ASSUMED for one in diagnosis.warnings)
    # The same device number in each process says nothing.
    (tmp_path / "log.txt").write_text(re.sub(r"device +\d", "device  0", half))
    (warning,) = [one for one in fc.diagnose(files, link="gen4x16", cpu="amd").warnings if "log.txt" in one.text]
    assert re.search(r"not compared: has 4 ranks, expected 8 .* \('fabricast collective --ranks'\)", warning.text)


def test_a_table_that_cannot_be_compared_does_not_end_the_bundle(causes, tmp_path):
    slow = [[3.9 if 3 in (row, column) else 25.9 for column in range(4)] for row in range(4)]
    two_hosts = nccl_tests("all_reduce", 4, {33554432: 9e4}).replace("on node01 device  3", "on node02 device  3")
    files = {"topo.txt": matrix(groups((4, "PHB"))), "p2p.txt": peer_test(slow), "log.txt": two_hosts}
    assert "slow_endpoint" in causes(files, link="gen4x16", cpu="amd")
    diagnosis = fc.diagnose([tmp_path / name for name in files], link="gen4x16", cpu="amd")
    assert any("not compared: is of 2 hosts" in one.text for one in diagnosis.warnings)
    assert (diagnosis.measured, diagnosis.compared) == (2, 1)


def test_copies_below_a_switch_that_are_slower_than_across_it(causes):
    """Access control sends them through the root port (voipmonitor/rtx6kpro: 11.2 below one bridge, 19.4 across)."""
    rates = [[11.2 if row // 2 == column // 2 else 19.4 for column in range(4)] for row in range(4)]
    found = causes({"topo.txt": matrix(PAIRS_OF_FOUR), "p2p.txt": peer_test(rates)}, link="gen4x16")
    assert list(found) == ["slow_below_switch"] and "ACS" in found["slow_below_switch"].remedy
    even = peer_test([[19.4] * 4 for _ in range(4)])
    assert "slow_below_switch" not in causes({"topo.txt": matrix(PAIRS_OF_FOUR), "p2p.txt": even})


def test_very_slow_copies_between_sockets(causes):
    rates = [[25.9 if row // 4 == column // 4 else 2.1 for column in range(8)] for row in range(8)]
    topology = matrix(groups((4, "PIX"), (2, "SYS")))
    assert list(causes({"topo.txt": topology, "p2p.txt": peer_test(rates)}, link="gen4x16")) == ["slow_between_sockets"]
    rates = [[25.9 if row // 4 == column // 4 else 12.0 for column in range(8)] for row in range(8)]
    assert causes({"topo.txt": topology, "p2p.txt": peer_test(rates)}, link="gen4x16") == {}


def test_wrong_results_are_the_first_finding(causes):
    log = nccl_tests("all_reduce", 2, {1 << 20: 100.0, 1 << 21: 150.0})
    lines = log.splitlines()
    wrong = next(number for number, line in enumerate(lines) if " 2097152 " in line)
    lines[wrong] = lines[wrong].rsplit(" ", 1)[0] + " 12"
    files = {"topo.txt": matrix(groups((2, "PIX"))), "log.txt": "\n".join(lines)}
    found = causes(files, link="gen4x16", cpu="amd")
    assert next(reversed(found)) == "wrong_results"
    assert found["wrong_results"].origin.endswith(f"log.txt:{wrong + 1}")


def test_hops_over_the_network_in_one_host_are_found(causes):
    log = debug_log(4, [0, 1, 2, 3], direct=False).replace("via SHM/direct/direct", "via NET/Socket/0")
    found = causes({"topo.txt": matrix(groups((4, "PHB"))), "nccl.log": log}, link="gen4x16")["network_in_host"]
    assert "--shm-size" in found.remedy and re.search(r"nccl\.log:\d+", found.origin)


def test_decorated_output_without_peer_access_is_read(causes):
    refused = [(row, column) for row in range(2) for column in range(2) if row != column]
    plain = peer_test([[25.0] * 2] * 2, disabled=refused)
    for prefix in ("", "> ", "[1,0]<stdout>:", "0: ", "    "):
        text = "".join(f"{prefix}{line}\n" for line in plain.splitlines())
        assert "no_peer_access" in causes({"topo.txt": matrix(groups((2, "PHB"))), "p2p.txt": text}, link="gen4x16")


def test_quoted_messages_are_read(causes):
    quoted = "I see this:\n" + "".join(f"> {line}\n" for line in matrix(groups((2, "PHB"))).splitlines())
    log = "".join(f"> > {line}\n" for line in nccl_tests("all_reduce", 2, {8388608: 1000.0}).splitlines())
    assert causes({"mail.txt": quoted, "log.txt": log}, link="gen4x16", cpu="amd")


def test_a_finding_of_some_sizes_names_their_rows(causes):
    times = measured("wrx90-A")
    files = {"topo.txt": matrix(groups((2, "PIX"))), "log.txt": nccl_tests("all_reduce", 2, dict.fromkeys(times, 9e4))}
    origin = causes(files, link="gen4x16", cpu="amd")["slower_than_forecast"].origin
    first, _, last = origin.rpartition(":")[2].partition("-")
    rows = files["log.txt"].splitlines()[int(first) - 1 : int(last)]
    assert len(rows) > 1 and all(row.split()[2] == "float" for row in rows)


def test_validate_names_what_it_does_not_use(tmp_path):
    (tmp_path / "paste.txt").write_text(peer_test([[0, 13.0], [13.0, 0]]) + nccl_tests("all_reduce", 2, {8388608: 900}))
    result = CliRunner().invoke(app, ["validate", "direct8", str(tmp_path / "paste.txt")])
    assert "nccl-tests not used here: 'fabricast diagnose' compares it, too" in result.stderr
    (tmp_path / "alone.txt").write_text(peer_test([[0, 13.0], [13.0, 0]]))
    assert "not used here" not in CliRunner().invoke(app, ["validate", "direct8", str(tmp_path / "alone.txt")]).output


def test_an_unknown_text_is_compared_with_known_programs(causes):
    topology = matrix(groups((2, "PHB")))
    cut = "[1,0]<stdout>: size  count  type  redop  time  algbw  busbw\n 8  2  float  sum  4.1  0.0  0.0\n"
    with pytest.raises(InputError, match="line 1 resembles nccl-tests, which prints '# size count type"):
        causes({"topo.txt": topology, "all_reduce.log": cut})
    with pytest.raises(InputError, match="line 2 resembles p2pBandwidthLatencyTest"):
        causes({"topo.txt": topology, "p2p.txt": "note\nUnidirectional P2P=Enabled Bandwidth (P2P Writes)\n"})


def test_the_command_exits_with_1_if_there_are_findings(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci(redirect="+"))
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "lspci.txt")])
    assert result.exit_code == 1
    assert "1. access control" in result.stdout
    (tmp_path / "lspci.txt").write_text(lspci())
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "lspci.txt")])
    assert result.exit_code == 0
    assert "no cause of lost time was found" in result.stdout


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
    (found,) = fc.diagnose([tmp_path / "m.yaml", tmp_path / "p2p.txt"]).findings
    assert (found.cause, found.text.split(" (")[0]) == ("no_peer_access", "12 of 12 pairs have no peer access")
    with pytest.raises(InputError, match="is one of several descriptions, expected a YAML topology alone"):
        fc.diagnose([tmp_path / "m.yaml", tmp_path / "topo.txt"])


def test_the_variable_that_disables_direct_copies_is_named(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    log = debug_log(4, [0, 1, 2, 3], direct=False, env="NCCL_P2P_DISABLE set by environment to 1")
    times = {1 << power: 30 + (1 << power) / 8e3 for power in range(10, 26)}
    (tmp_path / "run.log").write_text(log + nccl_tests("all_reduce", 4, times))
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "run.log"], link="gen4x16", cpu="amd").findings
    (cause,) = [one for one in found if one.cause == "host_memory_transport"]
    assert "because NCCL_P2P_DISABLE=1 is set" in cause.text
    assert cause.remedy == "unset NCCL_P2P_DISABLE"


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


def test_ranks_and_tables_of_logs_are_named_with_their_file(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    times = {1 << power: 30 + (1 << power) / 8e3 for power in (10, 20)}
    (tmp_path / "two.log").write_text(nccl_tests("all_reduce", 2, times))
    result = fc.diagnose([tmp_path / "topo.txt", tmp_path / "two.log"], link="gen4x16", cpu="amd")
    assert any("the log has 2 of 4 GPUs: 0 1 are assumed" in one.text for one in result.warnings)
    (tmp_path / "more.log").write_text(nccl_tests("all_reduce", 6, times))
    result = CliRunner().invoke(app, ["diagnose", *map(str, (tmp_path / "topo.txt", tmp_path / "more.log"))])
    assert result.exit_code == 1
    assert "none of the measurements is compared" in result.stdout
    assert re.search(r"more\.log:\d+: the table is not compared: has 6 ranks, expected 4", result.output)
    (tmp_path / "many.log").write_text("".join(nccl_tests("all_reduce", 4, times) for _ in range(80)))
    result = fc.diagnose([tmp_path / "topo.txt", tmp_path / "many.log"], link="gen4x16", cpu="amd")
    assert any("20 of 80 tables of nccl-tests are not compared" in one.text for one in result.warnings)
