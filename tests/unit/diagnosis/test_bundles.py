"""Bundles of files for a diagnosis: what is read, named, left out and compared."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.topology.files import tree_yaml
from tests.machines import import_machine, tables_in
from tests.unit.diagnosis.pasted import debug_log, measured, nccl_tests, peer_test
from tests.unit.pcie.topology.test_listings import groups, matrix

DATA = Path(__file__).parents[2] / "data" / "collectives"
PAIRS_OF_FOUR = groups((2, "PIX"), (2, "NODE"))
EIGHT_ON_TWO_SOCKETS = (groups((4, "NODE"), (2, "SYS")), [0] * 4 + [1] * 4)


@pytest.mark.parametrize(("files", "message"), [({"notes.txt": "hello\n", "empty.txt": ""}, "by no known program")])
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
        "topology of nvidia-smi topo -m",
        "not used, written by no known program",
        "not used, empty",
    ]


def test_files_of_other_commands_are_named_and_the_others_used(tmp_path):
    texts = {"topo.txt": matrix(groups((2, "PHB"))), "topology.conf": "SwitchName=s1 Nodes=node[0-3]\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sources = fc.diagnose([tmp_path / name for name in texts], link="gen4x16").sources
    assert sources[1].endswith("topology.conf of Slurm, not used: 'fabricast map --network' reads it")
    with pytest.raises(InputError, match=r"\(topology\.conf of Slurm\): 'fabricast map --network' reads it"):
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
    forecast = fc.collective([tmp_path / "machine.yaml", tmp_path / "log.txt"], cpu="amd")
    assert forecast.communicator.ranks == ("4", "5", "6", "7")
    assert all(one.code is not WarningCode.RANKS_ASSUMED for one in forecast.warnings)
    # nvidia-smi prints the addresses, too.
    table = "".join(f"| {gpu}  NVIDIA L40S     Off | 00000000:{bus}:00.0 Off | 0 |\n" for gpu, bus in enumerate(buses))
    (tmp_path / "smi.txt").write_text("| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA Version: 12.4 |\n" + table)
    diagnosis = fc.diagnose([*files, tmp_path / "smi.txt"], link="gen4x16", cpu="amd")
    assert all(one.code is not WarningCode.RANKS_ASSUMED for one in diagnosis.warnings)
    # The same device number in each process says nothing.
    (tmp_path / "log.txt").write_text(re.sub(r"device +\d", "device  0", half))
    (warning,) = [one for one in fc.diagnose(files, link="gen4x16", cpu="amd").warnings if "log.txt" in one.text]
    assert re.search(r"not compared: has 4 ranks, expected 8 .*specify ranks", warning.text)


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
        files = {"topo.txt": matrix(groups((2, "PHB"))), "p2p.txt": text}
        assert "no_peer_access" in causes(files, gpu="L40S")
        # Without a model, the GPUs may be GeForce cards, for which this is normal.
        assert "no_peer_access" not in causes(files, link="gen4x16")


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
    cut = "[1,0]<stdout>: size(B)  count  type  redop  time  algbw  busbw\n 8  2  float  sum  4.1\n"
    with pytest.raises(InputError, match="line 1 resembles nccl-tests, which prints '# size count type"):
        causes({"all_reduce.log": cut})
    with pytest.raises(InputError, match="line 2 resembles p2pBandwidthLatencyTest"):
        causes({"p2p.txt": "note\nUnidirectional P2P=Enabled Bandwidth (P2P Writes)\n"})


PEERS = peer_test([[0, 13.0], [13.0, 0]])
DAMAGED = {
    "topology": (matrix(groups((2, "PHB"))).replace("GPU1\tPHB", "GPU1\tP"), "cell GPU1 GPU0 is 'P'"),
    "cut topology": ("\n".join(matrix(groups((2, "PHB"))).splitlines()[:2]), "has no row of GPU1, expected one row"),
    "copies": (PEERS.replace("13.00", "abc", 1), "a cell is 'abc', expected a rate"),
    "cut copies": (PEERS[: PEERS.rindex("13.00") + 2], "row 1 has 1 values, expected 2"),
    "collectives": (
        nccl_tests("all_reduce", 2, {8388608: 900, 16777216: 1800}).replace(" 16777216", "  1777216"),
        "size is 1777216 after 8388608, expected increasing sizes in one table (line",
    ),
    "no header": (
        "[1,0]<stdout>: size(B)  count  type  redop  time  algbw  busbw\n 8  2  float  sum  4.1\n",
        "line 1 resembles nccl-tests, which prints '# size count type",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_and_the_others_are_compared(tmp_path, name):
    text, reason = DAMAGED[name]
    slow = peer_test([[0, 3.9, 26], [3.9, 0, 3.9], [26, 3.9, 0]])
    for file, content in {"a.txt": text, "topo.txt": matrix(groups((3, "PHB"))), "p2p.txt": slow}.items():
        (tmp_path / file).write_text(content)
    found = fc.diagnose([tmp_path / file for file in ("a.txt", "topo.txt", "p2p.txt")], link="gen4x16")
    assert found.damaged == 1 and found.compared == 1
    assert "a.txt: cannot be used: " in found.sources[0] and reason in found.sources[0]
    assert [one.cause for one in found.findings] == ["slow_endpoint"]
    # A damaged file alone is an error with its name, and never without one.
    with pytest.raises(InputError, match=r"a\.txt") as error:
        fc.diagnose([tmp_path / "a.txt"])
    assert reason.partition(" (line")[0] in str(error.value) or "has no topology" in str(error.value)
    # Beside files without a cause, the exit code still says that not all was read.
    (tmp_path / "p2p.txt").write_text(peer_test([[0, 26, 26], [26, 0, 26], [26, 26, 0]]))
    files = [str(tmp_path / file) for file in ("a.txt", "topo.txt", "p2p.txt")]
    result = CliRunner().invoke(app, ["diagnose", *files, "--link", "gen4x16"])
    assert result.exit_code == 1 and "a.txt: cannot be used: " in result.stdout
    assert CliRunner().invoke(app, ["diagnose", *files[1:], "--link", "gen4x16"]).exit_code == 0


def test_contradictions_of_descriptions_are_findings(tmp_path):
    for name, kind in (("one.txt", "PHB"), ("other.txt", "SYS")):
        (tmp_path / name).write_text(matrix(groups((2, "PIX"), (2, kind))))
    found = fc.diagnose([tmp_path / "one.txt", tmp_path / "other.txt"]).findings
    (first, *_) = [one for one in found if one.cause == "files_contradict"]
    assert re.search(r"other\.txt: GPUs 0 and 2 have class .*the files contradict each other", first.text)


@pytest.mark.slow
def test_ranks_and_tables_of_logs_are_named_with_their_file(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    times = {1 << power: 30 + (1 << power) / 8e3 for power in (10, 20)}
    (tmp_path / "two.log").write_text(nccl_tests("all_reduce", 2, times))
    result = fc.diagnose([tmp_path / "topo.txt", tmp_path / "two.log"], link="gen4x16", cpu="amd")
    assert any("the log has 2 of 4 GPUs: 0 1 are assumed" in one.text for one in result.warnings)
    (tmp_path / "more.log").write_text(nccl_tests("all_reduce", 6, times))
    result = CliRunner().invoke(
        app, ["diagnose", *map(str, (tmp_path / "topo.txt", tmp_path / "more.log")), "--link", "gen4x16", "-v"]
    )
    assert result.exit_code == 0
    assert result.stdout.startswith("not supported: the table of ") and "has 6 ranks, expected 4" in result.stdout
    assert re.search(r"more\.log:\d+: the table is not compared", result.output)
    (tmp_path / "many.log").write_text("".join(nccl_tests("all_reduce", 4, times) for _ in range(80)))
    result = fc.diagnose([tmp_path / "topo.txt", tmp_path / "many.log"], link="gen4x16", cpu="amd")
    assert any("50 of 80 tables of nccl-tests are not compared" in one.text for one in result.warnings)


def test_two_different_matrices_in_one_file_are_refused(tmp_path):
    one, other = (matrix(groups((2, "PIX"), (2, kind))) for kind in ("PHB", "SYS"))
    (tmp_path / "topo.txt").write_text(one + "\n" + one)
    assert len(import_machine([tmp_path / "topo.txt"]).accelerator_names) == 4
    (tmp_path / "topo.txt").write_text(one + "\n" + other)
    with pytest.raises(
        InputError, match=r"topo\.txt:13: row GPU0 differs from that of line 2, expected the matrix of one"
    ):
        import_machine([tmp_path / "topo.txt"])


def test_a_smaller_second_matrix_is_refused(tmp_path):
    large, small = matrix(groups((8, "PHB"))), matrix(groups((4, "NODE")))
    for text in (large + "\n" + small, small + "\n" + large):
        (tmp_path / "topo.txt").write_text(text)
        with pytest.raises(InputError, match="expected the matrix of one machine"):
            import_machine([tmp_path / "topo.txt"])


def test_tables_that_are_not_compared_are_named_in_the_verdict(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PHB"))))
    (tmp_path / "p2p.txt").write_text(peer_test([[0, 26], [26, 0]]))
    lines = nccl_tests("all_reduce", 2, {8388608: 900}).replace(" sum -1 ", " none -1 ").splitlines()
    (tmp_path / "run.txt").write_text("\n".join(line for line in lines if "starting" not in line) + "\n")
    files = [str(tmp_path / name) for name in ("topo.txt", "p2p.txt", "run.txt")]
    result = CliRunner().invoke(app, ["diagnose", *files, "--link", "gen4x16"])
    assert result.exit_code == 1
    verdict = result.output.splitlines()[0]
    assert verdict.startswith("within the expected range: direct copies reach 26 GB/s")
    assert "the table is not compared: does not name its operation" in verdict


def test_damaged_rows_are_named_and_headers_without_rows_do_not_count(tmp_path):
    text = nccl_tests("all_reduce", 4, {8388608: 900, 16777216: 1800})
    row = next(line for line in text.splitlines() if " 16777216 " in line)
    for damaged in (row[: row.index("sum") + 3], row[: row.index("-1") + 1], row + " and other text", row[:-1] + "nan"):
        (table,) = tables_in(text.replace(row, damaged), "log.txt")
        assert len(table.rows) == 1 and len(table.excluded) == 1, damaged
    header = next(line for line in text.splitlines() if "count" in line)
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    (tmp_path / "log.txt").write_text(f"{header}\n" * 40 + text)
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "log.txt"], link="gen4x16")
    assert found.compared == 1 and not found.damaged


def test_wrong_results_after_the_compared_tables_are_named(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(PAIRS_OF_FOUR))
    text = nccl_tests("all_reduce", 4, {8388608: 900})
    (tmp_path / "log.txt").write_text(text * 34 + text.replace("values : 0 OK", "values : 8 FAILED"))
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "log.txt"], link="gen4x16").findings
    (finding,) = [one for one in found if one.cause == "wrong_results"]
    assert finding.origin == f"{tmp_path}/log.txt:{(text * 35).count(chr(10))}"


@pytest.mark.parametrize(
    ("rates", "cause", "row"),
    [
        ([[0, 26, 26, 3.9], [26, 0, 26, 3.9], [26, 26, 0, 3.9], [3.9, 3.9, 3.9, 0]], "slow_endpoint", 3),
        ([[0, 26, 26, 26], [26, 0, 26, 26], [26, 15, 0, 26], [26, 26, 26, 0]], "slow_direction", 2),
    ],
)
def test_findings_on_a_matrix_cite_the_row_of_the_slowest_copy(tmp_path, rates, cause, row):
    (tmp_path / "topo.txt").write_text(matrix(groups((4, "PHB"))))
    text = "warning of another program\n" + peer_test(rates)
    (tmp_path / "p2p.txt").write_text(text)
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "p2p.txt"], gpu="RTX 4090").findings
    (origin,) = [one.origin for one in found if one.cause == cause]
    assert text.splitlines()[int(origin.rpartition(":")[2]) - 1].split()[0] == str(row)


DEVICES = "".join(
    f"Device: {n}, NVIDIA GeForce RTX 4090, pciBusID: {n + 1}, pciDeviceID: 0, pciDomainID:0\n" for n in range(4)
)


def test_the_gpu_model_of_measured_copies_is_used(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(groups((4, "PHB"))))
    (tmp_path / "p2p.txt").write_text(DEVICES + peer_test([[25.0] * 4] * 4))
    tree = fc.diagnose([tmp_path / "topo.txt", tmp_path / "p2p.txt"]).tree
    assert tree.link_bytes_per_s == pytest.approx(31.508e9, rel=1e-4)
    tree = import_machine([tmp_path / "topo.txt"])
    warnings = fc.collective(tree, measurements=tmp_path / "p2p.txt", cpu="amd").warnings
    assert not any("compute capability" in one.text for one in warnings)
    assert WarningCode.GPU_MODELS_DIFFER not in {one.code for one in warnings}
    # The log of another machine with as many GPUs.
    (tmp_path / "log.txt").write_text(nccl_tests("all_reduce", 4, {8388608: 900}))
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "p2p.txt", tmp_path / "log.txt"])
    (text,) = [one.text for one in found.warnings if one.code is WarningCode.GPU_MODELS_DIFFER]
    assert "p2p.txt is of NVIDIA GeForce RTX 4090, but " in text and "log.txt is of NVIDIA L40S" in text


def test_a_log_whose_gpus_have_other_addresses_than_the_topology_is_named(tmp_path):
    log = nccl_tests("all_reduce", 8, {8388608: 900})
    (tmp_path / "log.txt").write_text(log)
    tree = fc.load_topology("storm8")
    assert not any(tree.vertex(name).label for name in tree.accelerator_names)
    codes = {one.code for one in fc.collective(tree, log=tmp_path / "log.txt", cpu="amd").warnings}
    assert WarningCode.ADDRESSES_DIFFER not in codes
    for first, expected in ((0x10, False), (0x80, True)):
        vertices = tuple(
            replace(one, label=f"0000:{first + int(one.name):02x}:00.0") if one.kind == "endpoint" else one
            for one in tree.vertices
        )
        forecast = fc.collective(replace(tree, vertices=vertices), log=tmp_path / "log.txt", cpu="amd")
        assert (WarningCode.ADDRESSES_DIFFER in {one.code for one in forecast.warnings}) is expected


def test_a_log_of_two_ranks_without_operation_is_compared_if_rows_reduce_for_all(tmp_path):
    lines = nccl_tests("all_reduce", 2, {8388608: 900, 16777216: 1700}).splitlines()
    text = "\n".join(line for line in lines if "starting" not in line)
    assert [str(table.operation) for table in tables_in(text, "log.txt")] == ["all_reduce"]
    for other in (" none -1 ", " sum 0 "):
        assert [table.operation for table in tables_in(text.replace(" sum -1 ", other), "log.txt")] == [None]


def test_each_gpu_of_a_mixed_machine_has_its_model(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(groups((4, "PHB"))))
    mixed = DEVICES.replace("Device: 0, NVIDIA GeForce RTX 4090", "Device: 0, NVIDIA L40S")
    (tmp_path / "p2p.txt").write_text(mixed + peer_test([[25.0] * 4] * 4))
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "p2p.txt"])
    assert found.tree.link_bytes_per_s == pytest.approx(31.508e9, rel=1e-4)
    assert WarningCode.GPU_MODELS_DIFFER not in {one.code for one in found.warnings}


def test_findings_on_a_table_cite_the_row_of_the_graph_that_they_name(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(groups((4, "PHB"))))
    rows = [f"c{s}{t},{s}>{t},25" for s in range(4) for t in range(4) if s != t]
    rows[4] = rows[4].replace(",25", ",90")
    (tmp_path / "copies.csv").write_text("graph,communications,total_gb_per_s\n" + "\n".join(rows) + "\n")
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "copies.csv"], gpu="RTX 4090").findings
    (finding,) = [one for one in found if one.cause == "rate_beyond_links"]
    assert f"'{rows[4].partition(',')[0]}' reached 90 GB/s" in finding.text
    assert finding.origin == f"{tmp_path}/copies.csv:6"
    # One impossible rate makes no other copy slow.
    assert "slow_direction" not in [one.cause for one in found]
    # Graphs of several copies that deviate cite their row.
    more = [*(row.replace(",90", ",25") for row in rows), "g,0>1 2>3,20"]
    (tmp_path / "copies.csv").write_text("graph,communications,total_gb_per_s\n" + "\n".join(more) + "\n")
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "copies.csv"], gpu="RTX 4090").findings
    assert all(one.origin == f"{tmp_path}/copies.csv:14" for one in found if "'g'" in one.text)


def test_the_table_of_causes_has_a_gain_only_where_one_is_forecast():
    found = fc.diagnose([DATA / "nvidia_smi_topo.txt", DATA / "nccl_tests.log"])
    forecast = [one.rank for one in found.findings if 1 <= one.rank < 50]
    gains = found.table["gain"]
    assert gains.dropna().tolist() == forecast and forecast
    assert [one["gain"] is None for one in found.as_dict()["causes"]] == gains.isna().tolist()
    assert gains.isna().any()
