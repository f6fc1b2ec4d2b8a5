"""Pairs without peer access: sources, topology files, and forecasts through host memory."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.files import tree_yaml, write_tree
from fabricast.pcie.topology.parts import PeerLink
from fabricast.pcie.topology.regular import regular_tree
from tests.machines import import_machine
from tests.unit.diagnosis.test_diagnose import peer_test
from tests.unit.pcie.topology.test_listings import contradictions_of, groups, lspci, matrix

FOUR = matrix(groups((2, "PIX"), (2, "NODE")))
LEGEND = "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n  U    = Unknown\n"


def access(rows):
    """Return output of nvidia-smi topo -p2p r."""
    names = [f"GPU{number}" for number in range(len(rows))]
    lines = [f"{name}\t" + "\t".join(cells) for name, cells in zip(names, rows, strict=True)]
    return " \t" + "\t".join(names) + "\t\n" + "\n".join(f" {line}\t" for line in lines) + "\n" + LEGEND


def every(cell, count=4):
    return access([["X" if one == other else cell for other in range(count)] for one in range(count)])


#: GPUs 0 and 1 reach each other, as do 2 and 3.
PAIRS = access(
    [["X", "OK", "CNS", "CNS"], ["OK", "X", "CNS", "CNS"], ["CNS", "CNS", "X", "OK"], ["CNS", "CNS", "OK", "X"]]
)
CROSSING = {(str(one), str(other)) for one in range(4) for other in range(4) if one // 2 != other // 2}


def imported(folder, files, **known):
    paths = []
    for name, text in files.items():
        (folder / name).write_text(text)
        paths.append(folder / name)
    return import_machine(paths, link="gen4x16", **known)


def test_the_matrix_of_peer_access_is_a_property_of_the_topology(tmp_path):
    for files in (
        {"m.txt": FOUR, "p2p.txt": PAIRS},
        {"one.txt": FOUR + PAIRS},
        {"one.txt": "$ nvidia-smi topo -p2p r\n" + PAIRS + "$ topo\n" + FOUR},
    ):
        tree = imported(tmp_path, files)
        assert set(tree.staged_pairs) == CROSSING, files
        assert (tree.transport("0", "1"), tree.transport("0", "2")) == ("p2p", "staged")
        (warning,) = [one for one in tree.warnings if one.code == WarningCode.NO_PEER_ACCESS]
        assert warning.text.startswith("8 of 12 pairs have no peer access (chipset not supported; ")
    assert imported(tmp_path, {"m.txt": FOUR, "p2p.txt": every("OK")}).staged_pairs == ()
    assert not imported(tmp_path, {"m.txt": FOUR}).staged_pairs


def test_the_gpu_model_decides_without_a_matrix(tmp_path):
    stock = imported(tmp_path, {"m.txt": FOUR}, gpu="RTX 4090")
    assert len(stock.staged_pairs) == 12
    assert [one.code for one in stock.warnings if "driver" in one.text] == [WarningCode.PEER_ACCESS_ASSUMED]
    # A matrix of the machine is evidence: this driver was modified.
    assert not imported(tmp_path, {"m.txt": FOUR, "p2p.txt": every("OK")}, gpu="RTX 4090").staged_pairs
    assert not imported(tmp_path, {"m.txt": FOUR}, gpu="A100").staged_pairs


def test_the_gpu_model_of_lspci_decides_without_a_matrix(tmp_path):
    (tmp_path / "geforce.txt").write_text(lspci().replace("GA100 [A100 PCIe 40GB]", "AD102 [GeForce RTX 4090]"))
    tree = import_machine([tmp_path / "geforce.txt"])
    assert len(tree.staged_pairs) == 6
    assert "GeForce RTX 4090" in next(one.text for one in tree.warnings if one.code == WarningCode.PEER_ACCESS_ASSUMED)
    (tmp_path / "mixed.txt").write_text(lspci().replace("GA100 [A100 PCIe 40GB]", "AD102 [GeForce RTX 4090]", 1))
    mixed = import_machine([tmp_path / "mixed.txt"])
    assert set(mixed.staged_pairs) == {("0", "1"), ("1", "0"), ("0", "2"), ("2", "0")}, "two GPUs permit direct copies"


def test_staged_forecasts_state_the_time_of_direct_copies(tmp_path):
    tree = imported(tmp_path, {"m.txt": FOUR, "p2p.txt": every("CNS")})
    copies = [(0, 1), (1, 0)]
    table = fc.predict(tree, copies)
    (note,) = [one.text for one in table.attrs["warnings"] if one.code == WarningCode.OTHER_TRANSPORT]
    direct_ms = fc.predict(tree, copies, transport="p2p")["elapsed_s"].max() * 1e3
    assert note.startswith(
        f"with peer access (transport p2p), all copies would complete after {direct_ms:.3g} ms, staged ones after "
        f"{table['elapsed_s'].max() * 1e3:.3g} ms; the rates of staged copies are those of"
    )
    several = from_pairs([[(0, 1)], [(1, 0)]], size_bytes=1e9)
    notes = [one.text for one in fc.predict(tree, several).attrs["warnings"] if one.code == WarningCode.OTHER_TRANSPORT]
    assert "times as long as staged ones (median of 2 graphs)" in notes[0]


def test_pairs_with_direct_links_are_not_staged(tmp_path):
    tree = replace(regular_tree("two", (2,)), peer_links=(PeerLink("NVLink", ("0", "1")),))
    assert tree.transport("0", "1") == "nvlink"
    linked = matrix(
        [["X", "NV4", "PHB", "PHB"], ["NV4", "X", "PHB", "PHB"], ["PHB", "PHB", "X", "NV4"], ["PHB", "PHB", "NV4", "X"]]
    )
    mine = imported(tmp_path, {"m.txt": linked, "p2p.txt": every("CNS")})
    assert set(mine.staged_pairs) == CROSSING


def same(one, other):
    """Return whether two trees are equal; a file lists notes before warnings."""
    ordered = [replace(tree, warnings=tuple(sorted(tree.warnings, key=str))) for tree in (one, other)]
    return ordered[0] == ordered[1]


def test_topology_files_keep_the_pairs(tmp_path):
    tree = imported(tmp_path, {"m.txt": FOUR, "p2p.txt": PAIRS})
    write_tree(tree, tmp_path / "mine.yaml")
    assert same(load_tree(tmp_path / "mine.yaml"), tree)
    stock = imported(tmp_path, {"m.txt": FOUR}, gpu="RTX 4090")
    assert "\nstaged: all\n" in tree_yaml(stock)
    write_tree(stock, tmp_path / "mine.yaml")
    assert same(load_tree(tmp_path / "mine.yaml"), stock)
    text = tree_yaml(tree)
    for old, new, message in (
        ('"0>2"', '"0-2"', "staged contains '0-2', expected pairs such as 0>1, or all"),
        ('"0>2"', '"0>0"', "staged contains '0>0', expected two different accelerators"),
        ('"0>2"', '"0>9"', "staged contains '0>9', expected two different accelerators"),
    ):
        (tmp_path / "bad.yaml").write_text(text.replace(old, new, 1))
        with pytest.raises(InputError) as caught:
            load_tree(tmp_path / "bad.yaml")
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"p2p.txt": PAIRS}, "p2p.txt: has no topology beside peer access, expected one too ('nvidia-smi topo -m'"),
        (
            {"m.txt": FOUR, "p2p.txt": PAIRS.replace("GPU1\tOK\tX\tCNS\tCNS", "GPU1\tOK\tX\tCNS")},
            "p2p.txt:3: row GPU1 has 3 cells, expected 4 with X for GPU1",
        ),
    ],
)
def test_damaged_matrices_have_one_line(tmp_path, files, message):
    with pytest.raises(InputError) as caught:
        imported(tmp_path, files)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"m.txt": FOUR, "p2p.txt": every("NS", 6)}, "p2p.txt has GPU4, expected 4 GPUs as in the topology"),
        ({"m.txt": FOUR, "a.txt": PAIRS, "b.txt": every("OK")}, "a.txt:2 states that GPU 0>2 and 7 more pairs has no"),
    ],
)
def test_contradictions_are_one_line(tmp_path, files, message):
    (text,) = contradictions_of(imported(tmp_path, files))
    assert message in text


def test_forecasts_stage_the_pairs_without_peer_access(tmp_path):
    tree = replace(regular_tree("flat4x2", (2, 4)), link_bytes_per_s=31.508e9)
    copies = [(0, 1), (4, 5)]
    direct, staged = (fc.predict(tree, copies, transport=name) for name in ("p2p", "staged"))
    marked = replace(tree, staged_pairs=(("0", "1"), ("4", "5")))
    for column in ("elapsed_s", "bottleneck"):
        assert fc.predict(marked, copies)[column].tolist() == staged[column].tolist()
        assert fc.predict(marked, copies, transport="p2p")[column].tolist() == direct[column].tolist()
    # One of two copies is staged: it has the time of its halves, and the other one stays direct.
    half = fc.predict(replace(tree, staged_pairs=(("0", "1"),)), copies)
    assert half["transport"].tolist() == ["staged", "p2p"]
    assert half["elapsed_s"].tolist() == pytest.approx(
        [staged["elapsed_s"][0], fc.predict(tree, [(4, 5)], model="endpoint_engines")["elapsed_s"][0]], rel=1e-6
    )
    with pytest.raises(
        InputError, match="and 2 copies of this machine need them: choose ports_and_engines or .*, or transport p2p"
    ):
        fc.predict(marked, copies, model="max_min")
    # Copies of host memory and other pairs need no peer access.
    assert "transport" not in fc.predict(marked, [(0, 2)])
    assert "transport" not in fc.predict(marked, fc.host_copies(marked))


def test_any_mix_of_transports_has_one_row_per_copy():
    tree = replace(regular_tree("flat4x2", (2, 4)), link_bytes_per_s=31.508e9)
    chance = np.random.default_rng(5)
    for _ in range(20):
        ends = [tuple(pair) for pair in chance.permuted(np.tile(np.arange(8), (4, 1)), axis=1)[:, :2].tolist()]
        staged = [pair for pair in set(ends) if chance.random() < 0.5]
        marked = replace(tree, staged_pairs=tuple((str(one), str(other)) for one, other in staged))
        table = fc.predict(marked, ends)
        assert (
            list(zip(table["source"].astype(str).astype(int), table["target"].astype(str).astype(int), strict=True))
            == ends
        )
        if staged:
            assert (table["transport"] == "staged").tolist() == [pair in staged for pair in ends]
        assert (table["slowdown"] > 1 - 1e-9).all()


def test_measurements_state_which_pairs_have_no_peer_access(tmp_path):
    rates = [[50.0] * 4 for _ in range(4)]
    refused = [(one, other) for one in range(4) for other in range(4) if one // 2 != other // 2]
    (tmp_path / "peer.txt").write_text(peer_test(rates, disabled=refused))
    (tmp_path / "topo.txt").write_text(FOUR)
    call = [
        "predict",
        str(tmp_path / "topo.txt"),
        "--copies",
        "0>2 1>0",
        "--measurements",
        str(tmp_path / "peer.txt"),
        "--format",
        "csv",
        "-v",
    ]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    rows = [line.split(",") for line in result.stdout.splitlines()]
    place = rows[0].index("transport")
    assert [row[place] for row in rows[1:3]] == ["staged", "p2p"]
    assert "8 of 12 pairs have no peer access" in result.stderr
    direct = CliRunner().invoke(app, [*call, "--transport", "p2p"])
    assert direct.exit_code == 0, direct.output
    assert "transport" not in direct.stdout


def test_collectives_and_diagnoses_use_the_pairs(tmp_path):
    tree = imported(tmp_path, {"m.txt": FOUR, "p2p.txt": PAIRS})
    known = {"sizes": ["16 MiB"], "gpu": "A100", "cpu": "amd", "nccl_version": "2.21.5"}
    forecast = fc.collective(tree, **known)
    assert set(forecast.transports) == {"P2P", "SHM"}
    assert set(forecast.transports["SHM"]) <= {f"{one}>{other}" for one, other in CROSSING}
    # A setting of the user counts more than the topology.
    assert set(fc.collective(tree, transport="p2p", **known).transports) == {"P2P"}
    whole = imported(tmp_path, {"m.txt": FOUR, "p2p.txt": every("CNS")})
    assert set(fc.collective(whole, **known).transports) == {"SHM"}
    (tmp_path / "m.txt").write_text(FOUR)
    (tmp_path / "p2p.txt").write_text(PAIRS)
    found = fc.diagnose([tmp_path / "m.txt", tmp_path / "p2p.txt"], link="gen4x16").findings
    assert [one.cause for one in found] == ["no_peer_access"]
    assert "p2p.txt" in found[0].text


def without_access(rate, count=4):
    """Return output of p2pBandwidthLatencyTest on GPUs without peer access."""
    pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
    head = "   D\\D" + "".join(f"{column:7}" for column in range(count)) + "\n"
    rows = "".join(
        f"{row:6}" + "".join(f"{900.0 if row == column else rate:7.2f}" for column in range(count)) + "\n"
        for row in range(count)
    )
    lines = "".join(f"Device={one} CANNOT Access Peer Device={other}\n" for one, other in pairs)
    return (
        f"{lines}Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n{head}{rows}"
        f"Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n{head}{rows}"
    )


def test_measured_copies_through_host_memory_bound_the_forecast(tmp_path):
    (tmp_path / "off.txt").write_text(without_access(10.0))
    tree = imported(tmp_path, {"m.txt": FOUR})
    measured = fc.predict(tree, [(0, 2)], size=1e9, measurements=tmp_path / "off.txt")
    assert measured["transport"].tolist() == ["staged"]
    assert measured["elapsed_s"].tolist() == pytest.approx([0.1])
    # Contention slows such copies at most as in the model: the driver, not the links, limits each copy.
    two = [(0, 2), (1, 2)]
    slowdown = fc.predict(tree, two, transport="staged")["slowdown"].tolist()
    table = fc.predict(tree, two, size=1e9, measurements=tmp_path / "off.txt")
    assert ((table["slowdown"] > 1) & (table["slowdown"] < slowdown)).all()
    assert (table["elapsed_s"] / 0.1).tolist() == pytest.approx(table["slowdown"].tolist())
    # A rate above that of the links does not make copies faster.
    (tmp_path / "fast.txt").write_text(without_access(500.0))
    fast = fc.predict(tree, [(0, 2)], size=1e9, measurements=tmp_path / "fast.txt")
    direct = fc.predict(tree, [(0, 2)], size=1e9, transport="p2p")
    assert fast["elapsed_s"].tolist() == pytest.approx(direct["elapsed_s"].tolist())
    forecast = fc.collective(tree, measurements=tmp_path / "off.txt", sizes=["16 MiB"], gpu="A100", cpu="amd")
    assert set(forecast.transports) == {"SHM"}


def test_a_collective_has_the_links_of_its_gpu_model(tmp_path):
    (tmp_path / "m.txt").write_text(FOUR)
    forecast = fc.collective(tmp_path / "m.txt", sizes=["16 MiB"], gpu="L40S", cpu="amd")
    assert any("assumed to be gen4x16, as its model L40S has" in one.text for one in forecast.warnings)
    with pytest.raises(InputError, match="link speed"):
        fc.collective(tmp_path / "m.txt", sizes=["16 MiB"], cpu="amd")
