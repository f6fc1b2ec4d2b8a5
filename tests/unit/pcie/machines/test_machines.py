"""Source of model parameters: link speeds of the file, probes, or published values."""

import re

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError, PeerLinkError, UnknownSpeedError
from fabricast.core.units import GIB, MIB, PROTOCOL_EFFICIENCY, pcie_link_bytes_per_s
from fabricast.core.warnings import WarningCode
from fabricast.inputs.pair_rates import pcie_share
from fabricast.pcie.models.parameters import machine_parameters, read_machine_parameters
from fabricast.pcie.topology.builtin import load_tree
from tests.fuzz.doors import GRAPHS, HWLOC, NCCL
from tests.machines import import_xml

SIZE = 300 * MIB


def nccl(speed, width=16, gpus=4):
    """Return NCCL XML of GPUs below one switch."""
    below = "".join(
        f'<pci busid="0000:{n:02}:00.0" class="0x030200" link_speed="{speed} GT/s" link_width="{width}"/>'
        for n in range(gpus)
    )
    bridge = f'<pci busid="ffff:01:00.0" class="0x060400" link_speed="{speed} GT/s" link_width="{width}">{below}</pci>'
    return f'<system version="1"><cpu numaid="0">{bridge}</cpu></system>'


@pytest.fixture
def graphs(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text("graph,source,target\nalone,0,1\n")
    return path


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def elapsed(path):
    return duckdb.sql(f"SELECT elapsed_s FROM '{path}'").fetchall()[0][0]


@pytest.mark.parametrize(
    ("speed", "width", "generation"), [(5, 8, 2), (8, 16, 3), (16, 8, 4), (32, 16, 5), (64, 16, 6)]
)
def test_predict_and_simulate_use_link_speeds_of_file(tmp_path, graphs, speed, width, generation):
    machine = tmp_path / "machine.xml"
    machine.write_text(nccl(speed, width))
    rate = pcie_link_bytes_per_s(generation, width)
    tree = import_xml(machine)
    assert (tree.vertex("0").generation, tree.vertex("0").width) == (generation, width)
    assert tree.link_bytes_per_s == pytest.approx(rate)
    for command in ("predict", "simulate"):
        result = run(command, machine, graphs, "-o", tmp_path / f"{command}.csv")
        assert result.exit_code == 0, result.output
    predicted, simulated = (elapsed(tmp_path / f"{command}.csv") for command in ("predict", "simulate"))
    assert predicted == pytest.approx(SIZE / (rate * pcie_share(generation).median))
    # The simulator sends packets over the links.
    assert simulated == pytest.approx(SIZE / (rate * PROTOCOL_EFFICIENCY), rel=1e-3)


def test_provenance_of_defaults_is_reported(tmp_path, graphs):
    machine = tmp_path / "machine.xml"
    machine.write_text(nccl(16))
    result = run("predict", machine, graphs, "--model", "congestion_factor", "-v")
    share = pcie_share(4)
    expected = rf"links of 31\.51 GB/s times {share.median:.3f}, the median share on {share.machines} public machines"
    assert re.search(expected, result.output)
    assert "tau 0: assumed, the topology specifies none" in result.output
    assert "crossing_cost" not in result.output
    assert "crossing_cost 1: assumed" in run("predict", machine, graphs, "--model", "back_pressure", "-v").output
    assert (
        "14.40 GB/s on these links, but 12.46 GB/s were measured on 'storm8'"
        in run("simulate", "storm8", graphs, "-v").output
    )
    paper = run("predict", "storm8", graphs)
    assert "note" not in paper.output
    assert "0.0252559" in paper.output


def test_bandwidth_of_yaml_file_is_used(tmp_path, graphs):
    machine, yaml = tmp_path / "machine.xml", tmp_path / "machine.yaml"
    machine.write_text(nccl(16))
    assert run("topology", "import", machine, "-o", yaml).exit_code == 0
    yaml.write_text(yaml.read_text().replace("tag:", "bandwidth_bytes_per_s: 20.0e+9\ntag:"))
    assert run("predict", yaml, graphs, "-o", tmp_path / "out.csv").exit_code == 0
    assert elapsed(tmp_path / "out.csv") == pytest.approx(SIZE / 20e9)
    yaml.write_text(yaml.read_text().replace("20.0e+9", "40.0e+9"))
    with pytest.raises(InputError, match="at most the link rate 3.15077e\\+10"):
        load_tree(yaml)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--bandwidth", "30GiB/s"],
            "bandwidth is 32.21 GB/s (30 GiB/s), expected at most the 31.51 GB/s of the links",
        ),
        (["--bandwidth", "inf"], "bandwidth is 'inf'"),
        (["--crossing-cost", "inf"], "--crossing-cost is inf"),
        (["--size", "inf"], "--size is 'inf'"),
    ],
)
def test_impossible_options_are_rejected(tmp_path, graphs, arguments, message):
    machine = tmp_path / "machine.xml"
    machine.write_text(nccl(16))
    assert message in str(run("predict", machine, graphs, *arguments).exception)


def test_generation_and_width_contradicting_file_are_rejected(tmp_path, graphs):
    machine = tmp_path / "machine.xml"
    machine.write_text(nccl(16))
    error = run("simulate", machine, graphs, "--generation", "5", "--width", "16").exception
    assert "specify 63.02 GB/s, expected 31.51 GB/s" in str(error)
    assert run("simulate", machine, graphs, "--generation", "4", "--width", "16").exit_code == 0


def test_machine_without_link_speeds_is_rejected(graphs):
    for command in (
        ["predict", "flat4x2", graphs],
        ["simulate", "flat4x2", graphs],
        ["schedule", "flat4x2", "--halo", "4x2"],
    ):
        assert isinstance(run(*command).exception, UnknownSpeedError), command
    with pytest.raises(UnknownSpeedError):
        machine_parameters(load_tree("boards4"))
    assert machine_parameters(load_tree("boards4"), bandwidth_bytes_per_s=1e10).tau == 0.0


def test_calibrated_parameters_are_used_by_every_command(tmp_path, graphs):
    machine, probes, parameters = (tmp_path / name for name in ("machine.xml", "probes.csv", "machine.parameters.csv"))
    machine.write_text(nccl(16))
    times = [SIZE / 25e9 * (1 + 0.001 * n) for n in range(5)]
    pd.DataFrame(
        [("alone", n, 0, 1, SIZE, time) for n, time in enumerate(times)],
        columns=["graph", "repetition", "source", "target", "size_bytes", "elapsed_s"],
    ).to_csv(probes, index=False)
    assert run("calibrate", machine, probes, "-o", parameters).exit_code == 0
    assert read_machine_parameters(parameters, "machine")["bandwidth"].tag == "measured"
    for command in (["predict", machine, graphs], ["simulate", machine, graphs]):
        result = run(*command, "--parameters", parameters, "-o", tmp_path / "out.csv")
        assert result.exit_code == 0, result.output
        assert elapsed(tmp_path / "out.csv") == pytest.approx(SIZE / 25e9, rel=3e-3), command
    halo = run("schedule", machine, "--halo", "2x2", "--parameters", parameters)
    assert halo.exit_code == 0, halo.output
    assert "expected those of 'pcie storm8'" in str(
        run("predict", "storm8", graphs, "--parameters", parameters).exception
    )
    parameters.write_text(parameters.read_text().replace("measured", "guessed"))
    assert "tag is 'guessed'" in str(run("predict", machine, graphs, "--parameters", parameters).exception)


def test_direct_link_copies_are_rejected_with_reason(tmp_path):
    graphs = tmp_path / "graphs.csv"
    for name, text, kind in (("hwloc.xml", HWLOC, "NVLink"), ("nccl.xml", NCCL, "xGMI")):
        machine = tmp_path / name
        machine.write_text(text)
        tree = import_xml(machine)
        assert tree.peer_link("0", "1") == kind
        graphs.write_text("graph,source,target\nmine,0,1\n")
        for command in (["predict", "--model", "back_pressure"], ["simulate"]):
            error = run(command[0], machine, graphs, *command[1:]).exception
            assert isinstance(error, PeerLinkError)
            assert f"graph 'mine' copies 0 to 1 over {kind}, which this model" in str(error)
            assert run(command[0], machine, graphs, *command[1:], "--pcie-only").exit_code == 0
        assert (run("predict", machine, graphs).exit_code == 0) is (kind == "NVLink"), "only this file has a rate"
        if "2" in tree.endpoint_names:
            graphs.write_text("graph,source,target\nmine,0,2\n")
            assert run("predict", machine, graphs).exit_code == 0


def test_nvswitch_joins_all_connected_gpus(tmp_path, shared_data):
    text = nccl(16)
    for n in range(4):
        gpu = f'<gpu dev="{n}"><nvlink target="0000:99:00.0" count="6" tclass="0x068000"/></gpu></pci>'
        text = re.sub(rf'(busid="0000:{n:02}:00.0"[^>]*)/>', rf"\1>{gpu}", text)
    machine = tmp_path / "machine.xml"
    machine.write_text(text)
    assert import_xml(machine).peer_link("0", "3") == "NVSwitch"
    for version in ("v2", "v3"):
        tree = import_xml(shared_data / "hwloc" / f"nvidiaDGX2.{version}.xml")
        assert [(peers.kind, len(peers.endpoints)) for peers in tree.peer_links] == [("NVSwitch", 16)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('host_hash="0x1">\n    <pci busid="0000:28', 'host_hash="0x2">\n    <pci busid="0000:28'), "holds 2 hosts"),
        (('<gpu dev="0"/>', '<gpu dev="0"/><gpu dev="5"/>'), "holds 2 GPUs, expected one"),
        (('link_width="8"', 'link_width="1000000"'), "link_width '1000000'"),
        (('link_width="8"', 'link_width="1_6"'), "link_width '1_6'"),
        (('0000:20:00.0" class', '0000:1d:00.0" class'), "busid '0000:1d:00.0' is a duplicate"),
    ],
)
def test_invalid_server_files_are_rejected(tmp_path, change, message):
    machine = tmp_path / "machine.xml"
    machine.write_text(NCCL.replace(*change))
    with pytest.raises(InputError, match=re.escape(message)):
        import_xml(machine)


def test_path_classes_count_hidden_switches(tmp_path):
    machine = tmp_path / "machine.xml"
    inner = '<pci busid="{0}b" class="0x060400" link_speed="8 GT/s" link_width="16"><pci busid="{0}" class="0x030200"/></pci>'
    machine.write_text(
        '<system><cpu><pci busid="up" class="0x060400" link_speed="8 GT/s" link_width="16">'
        + inner.format("a")
        + inner.format("c")
        + '<pci busid="d" class="0x030200"/><pci busid="e" class="0x030200"/>'
        "</pci></cpu></system>"
    )
    tree = import_xml(machine)
    assert tree.path_class("0", "1") == "PXB", "two switches lie between"
    assert tree.path_class("2", "3") == "PIX"
    assert load_tree_again(tree, tmp_path).path_class("0", "1") == "PXB"


def load_tree_again(tree, folder):
    from fabricast.pcie.topology.files import write_tree

    write_tree(tree, folder / "again.yaml")
    assert load_tree(folder / "again.yaml") == tree
    return load_tree(folder / "again.yaml")


def test_widths_contradicting_capacity_are_rejected(tmp_path):
    machine, yaml = tmp_path / "machine.xml", tmp_path / "machine.yaml"
    machine.write_text(nccl(16))
    assert run("topology", "import", machine, "-o", yaml).exit_code == 0
    yaml.write_text(yaml.read_text().replace("generation: 4, width: 16", "generation: 4, width: 8", 1))
    with pytest.raises(
        InputError, match="is Gen4 x8 with a rate of 15.75 GB/s, but capacity times link_bytes_per_s is 31.51"
    ):
        load_tree(yaml)


@pytest.mark.parametrize("capacity", ["1.0e+308", "1.0e-9", ".inf"])
def test_invalid_capacities_are_rejected(tmp_path, capacity):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nvertices:\n  - {name: RC, kind: root_complex}\n  - {name: '0', kind: endpoint, parent: RC}\n"
        f"  - {{name: '1', kind: endpoint, parent: RC, capacity: {capacity}}}\n"
    )
    with pytest.raises(InputError, match=r"mine\.yaml:5"):
        load_tree(path)


def test_trace_shows_packets_and_rates(tmp_path):
    graphs = tmp_path / "graphs.csv"
    graphs.write_text(
        GRAPHS.partition("ring")[0].replace("1048576,0", "314572800,0").replace("2097152,0.001", "314572800,0")
    )
    result = run("simulate", "storm8", graphs, "--trace", "halo", "--trace-output", tmp_path / "trace.parquet")
    assert result.exit_code == 0, result.output
    assert re.search(r"0→1 ends after 21\.84\d\d ms", result.output)
    rows = duckdb.sql(f"SELECT count(*), max(end_s) FROM '{tmp_path}/trace.parquet'").fetchall()[0]
    assert rows[0] == 2000
    # All traced packets follow each other: the trace ends within microseconds.
    assert rows[1] < 50e-6
    assert (tmp_path / "trace.png").stat().st_size > 10_000


def test_bandwidth_option_is_in_gibibytes(tmp_path, graphs):
    machine = tmp_path / "machine.xml"
    machine.write_text(nccl(32))
    assert run("predict", machine, graphs, "--bandwidth", "24GiB/s", "-o", tmp_path / "out.csv").exit_code == 0
    assert elapsed(tmp_path / "out.csv") == pytest.approx(SIZE / (24 * GIB))


def probes_of(path, *rows):
    lines = [f"{probe},{repeat},{s},{t},{SIZE},{seconds}" for probe, repeat, s, t, seconds in rows]
    path.write_text("graph,repetition,source,target,size_bytes,elapsed_s\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", 0, 0, 1, 1e-3)], "expected at most the 15.75 GB/s"),
        ([("a", 0, 0, 4, 0.025)], "no probe is an isolated copy below a switch"),
        ([("a", 0, 0, 1, 0.03), ("x", 0, 0, 4, 0.024)], "1.25 times as fast as those below a switch"),
        ([("a", 0, 0, 1, 0.025), ("c", 0, 1, 0, 0.05), ("c", 0, 4, 0, 0.0375)], "is faster than the local copy"),
        ([("a", 0, 0, 77, 0.025)], "names the endpoint '77', expected one of 0, 1"),
    ],
)
def test_probes_contradicting_the_machine_are_rejected(tmp_path, rows, message):
    error = run("calibrate", "storm8", probes_of(tmp_path / "probes.csv", *rows)).exception
    assert message in str(error)


def test_probes_over_direct_links_do_not_calibrate_the_tree(tmp_path):
    machine = tmp_path / "machine.xml"
    machine.write_text(HWLOC)
    probes = probes_of(tmp_path / "probes.csv", ("a", 0, 0, 1, 0.05))
    assert isinstance(run("calibrate", machine, probes).exception, PeerLinkError)
    assert run("calibrate", machine, probes, "--pcie-only").exit_code == 0


def test_parameters_used_by_simulator_are_reported(tmp_path, graphs):
    machine, parameters = tmp_path / "machine.xml", tmp_path / "p.csv"
    machine.write_text(nccl(8))
    head = "study,system,name,value,unit,tag,source\n"
    row = "pcie,machine,{},{},{},measured,probes\n"
    parameters.write_text(head + row.format("bandwidth", "12e9", "bytes/s") + row.format("tau", "0.2", "1"))
    result = run("simulate", machine, graphs, "--parameters", parameters, "-v")
    assert "links of 13.12 GB/s" in result.output
    assert "the simulator ignores tau," in result.output
    parameters.write_text(head + row.format("bandwidth", "15.7e9", "bytes/s"))
    assert "requires links of 17.17 GB/s" in str(run("simulate", machine, graphs, "--parameters", parameters).exception)
    parameters.write_text(head + row.format("tau", "0.2", "1"))
    assert "contains no bandwidth" in str(run("simulate", machine, graphs, "--parameters", parameters).exception)


def test_processor_links_are_not_switches_and_slow_links_are_reported(tmp_path):
    text = nccl(16)
    for n in range(4):
        gpu = f'<gpu dev="{n}"><nvlink target="0000:ff:00.0" count="3" tclass="0x068001"/></gpu></pci>'
        text = re.sub(rf'(busid="0000:{n:02}:00.0"[^>]*)/>', rf"\1>{gpu}", text)
    machine = tmp_path / "machine.xml"
    machine.write_text(
        text.replace(
            'busid="0000:03:00.0" class="0x030200" link_speed="16',
            'busid="0000:03:00.0" class="0x030200" link_speed="2.5',
        )
    )
    tree = import_xml(machine)
    assert tree.peer_links == ()
    (slow,) = [one.text for one in tree.warnings if one.code == WarningCode.SLOW_LINKS]
    # NCCL writes the maximum speed of a link, so that it is not idle.
    assert "(0000:03:00.0: 4 GB/s, as Gen1 x16): this is the most that card and slot can reach" in slow
    every = machine.with_name("every.xml")
    every.write_text(text.replace('link_speed="16', 'link_speed="2.5'))
    assert not {WarningCode.SLOW_LINKS, WarningCode.IDLE_LINKS} & {one.code for one in import_xml(every).warnings}


def test_output_never_overwrites_input(tmp_path, graphs):
    before = graphs.read_text()
    assert "which is also an input file" in str(run("predict", "storm8", graphs, "-o", graphs).exception)
    assert graphs.read_text() == before


def test_topology_show_draws_network_cards_of_xml(tmp_path):
    path = tmp_path / "machine.xml"
    path.write_text(
        '<system version="1"><cpu numaid="0"><pci busid="a" class="0x060400" link_speed="16 GT/s" link_width="16">'
        '<pci busid="b" class="0x030200" link_speed="16 GT/s" link_width="16"><gpu dev="0"/></pci>'
        '<pci busid="c" class="0x020700" link_speed="16 GT/s" link_width="16"><nic><net name="mlx5_0"/></nic></pci>'
        "</pci></cpu></system>"
    )
    plain, drawn = (
        CliRunner().invoke(app, ["topology", "show", str(path), *more]) for more in ([], ["--network-cards"])
    )
    assert plain.exit_code == drawn.exit_code == 0
    assert "mlx5_0" not in plain.stdout
    assert "mlx5_0 endpoint  Gen4 x16  31.51 GB/s  network card" in drawn.stdout
