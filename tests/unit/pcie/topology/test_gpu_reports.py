"""GPU models and links from nvidia-smi, beside a topology."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.core.warnings import WarningCode
from fabricast.sources.reading import facts_of_text
from tests.machines import import_machine, values_in
from tests.unit.pcie.topology.test_listings import classes_of, groups, lspci, matrix


def query(*gpus, name="NVIDIA L40S", device=4):
    """Return output of nvidia-smi -q for GPUs with (highest generation, width, width now)."""
    text = "\n==============NVSMI LOG==============\n\nTimestamp : Fri Nov 27 18:50:55 2026\n\n"
    for number, (generation, width, now) in enumerate(gpus):
        text += f"""GPU 00000000:0{number + 3}:00.0
    Product Name                                       : {name}
    Display Mode                                       : Disabled
    MIG Mode
        Current                                        : N/A
    PCI
        Bus Id                                         : 00000000:0{number + 3}:00.0
        GPU Link Info
            PCIe Generation
                Max                                    : {generation}
                Current                                : 1
                Device Max                             : {device}
                Host Max                               : N/A
            Link Width
                Max                                    : {width}
                Current                                : {now}
    Clocks
        Max                                            : 16
"""
    return text


def table(*names):
    """Return the table of nvidia-smi."""
    head = "+---+\n| NVIDIA-SMI 580.159.04    Driver Version: 580.159.04    CUDA Version: 13.0     |\n+---+\n"
    rows = [
        f"|   {number}  {name}          On  |   00000000:0{number + 3}:00.0 Off |                    0 |\n"
        "| N/A   35C    P0             71W /  700W |       0MiB /  81559MiB |      0%      Default |\n"
        for number, name in enumerate(names)
    ]
    return head + "".join(rows) + "|    0   N/A  N/A      1234      C   python      500MiB |\n"


def listed(*names):
    return "".join(f"GPU {number}: {name} (UUID: GPU-{number}e5b)\n" for number, name in enumerate(names))


TOPOLOGY = matrix(groups((2, "PIX"), (2, "NODE")))
FULL = (4, "16x", "16x")


def imported(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return import_machine([folder / f"{name}.txt" for name in texts])


def codes(tree):
    return {warning.code for warning in tree.warnings}


def test_links_of_a_query_are_those_of_the_topology(tmp_path):
    smi = query(FULL, FULL, (4, "16x", "8x"), (3, "16x", "4x"), device="N/A")
    tree = imported(tmp_path, topo=TOPOLOGY, smi=smi)
    assert classes_of(tree) == groups((2, "PIX"), (2, "NODE"))
    assert tree.link_bytes_per_s == pytest.approx(31.508e9, rel=1e-3), "an idle GPU reduces its generation"
    assert [tree.vertex(name).capacity for name in tree.accelerator_names] == pytest.approx(
        [1, 1, 1 / 2, 1 / 8], rel=1e-3
    )
    assert [tree.vertex(name).width for name in tree.accelerator_names] == [16, 16, 8, 4]
    texts = [one.text for one in tree.warnings if one.code is WarningCode.DOWNGRADED_LINK]
    assert len(texts) == 2 and "0000:05:00.0 uses x8 of x16" in texts[0]
    assert WarningCode.LINK_SPEED_MISSING not in codes(tree)


@pytest.mark.parametrize(
    "text",
    [
        table(*["NVIDIA H100 PCIe"] * 4),
        listed(*["NVIDIA H100 PCIe"] * 4),
        query(*[("N/A", "N/A", "N/A")] * 4, name="NVIDIA H100 PCIe"),
    ],
)
def test_the_model_determines_links_that_are_not_printed(tmp_path, text):
    tree = imported(tmp_path, topo=TOPOLOGY, smi="$ nvidia-smi\r\n" + text.replace("\n", "\r\n"))
    assert tree.link_bytes_per_s == pytest.approx(63.015e9, rel=1e-3)
    (note,) = [one.text for one in tree.warnings if "is assumed to be gen5x16" in one.text]
    assert "nvidia-smi -q" in note


def test_the_model_determines_peer_access(tmp_path):
    tree = imported(tmp_path, topo=TOPOLOGY, smi=table(*["NVIDIA GeForce RTX 4090"] * 4))
    assert len(tree.staged_pairs) == 12 and WarningCode.PEER_ACCESS_ASSUMED in codes(tree)


def test_only_pairs_with_a_model_without_peer_access_are_staged(tmp_path):
    tree = imported(tmp_path, topo=TOPOLOGY, smi=listed(*["NVIDIA L4"] * 3, "NVIDIA GeForce RTX 4090"))
    assert set(tree.staged_pairs) == {pair for gpu in "012" for pair in ((gpu, "3"), ("3", gpu))}
    assert WarningCode.PEER_ACCESS_ASSUMED in codes(tree)


def test_each_gpu_has_the_link_of_its_model(tmp_path):
    tree = imported(tmp_path, topo=TOPOLOGY, smi=listed(*["NVIDIA L4"] * 3, "NVIDIA H100"))
    assert tree.link_bytes_per_s == pytest.approx(63.015e9, rel=1e-3)
    assert [tree.vertex(name).generation for name in tree.accelerator_names] == [4, 4, 4, 5]
    unknown = imported(tmp_path, topo=TOPOLOGY, smi=listed(*["Quadro"] * 4))
    assert unknown.link_bytes_per_s is None and WarningCode.LINK_SPEED_MISSING in codes(unknown)


def test_several_reports_and_both_programs_in_one_file_are_read(tmp_path):
    gpus = query(*[FULL] * 4)
    tree = imported(tmp_path, both=f"{TOPOLOGY}\n{gpus}\n{gpus}", names=listed(*["NVIDIA L40S"] * 4))
    assert tree.link_bytes_per_s == pytest.approx(31.508e9, rel=1e-3) and len(tree.accelerator_names) == 4


def test_a_slot_of_an_older_generation_is_a_warning(tmp_path):
    tree = imported(tmp_path, topo=TOPOLOGY, smi=query(*[FULL] * 3, (3, "16x", "16x")))
    (text,) = [one.text for one in tree.warnings if one.code is WarningCode.DOWNGRADED_LINK]
    assert text == "the link of 0000:06:00.0 reaches Gen3 of Gen4: slot or BIOS limits it"
    assert tree.vertex("3").capacity == pytest.approx(0.5, rel=1e-3)


def test_gpus_of_lspci_are_found_by_their_address(tmp_path):
    status = "Speed 16GT/s, Width x8 (downgraded)"
    tree = imported(tmp_path, vv=lspci(gpu_status=status), smi=query((4, "16x", "8x"), FULL, FULL))
    assert [tree.vertex(name).width for name in tree.accelerator_names] == [8, 16, 16]
    assert sum(one.code is WarningCode.DOWNGRADED_LINK for one in tree.warnings) == 1, "both programs print the same"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"vv": lspci(), "smi": query((4, "16x", "4x"), FULL, FULL)},
            r"smi\.txt: GPU 0 has a link of x4, expected x16 as in .*vv\.txt \(lspci -vv\)",
        ),
        (
            {"topo": TOPOLOGY, "one": query(*[FULL] * 4), "two": query((4, "16x", "4x"), *[FULL] * 3)},
            r"two\.txt: GPU 0 .* as in .*one\.txt",
        ),
        ({"topo": TOPOLOGY, "smi": query(FULL)}, "has 1 GPUs, expected 4"),
    ],
)
def test_contradictions_are_named(tmp_path, texts, message):
    (text,) = [one.text for one in imported(tmp_path, **texts).warnings if one.code is WarningCode.FILES_CONTRADICT]
    assert re.search(message, text)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"smi": query(FULL)}, "has no topology beside GPUs, expected one too"),
        ({"topo": TOPOLOGY, "smi": "==============NVSMI LOG==============\nAttached GPUs : 0\n"}, "has no GPU"),
    ],
)
def test_reports_that_describe_nothing_are_rejected(tmp_path, texts, message):
    with pytest.raises(InputError, match=message):
        imported(tmp_path, **texts)


def test_diagnosis_names_the_narrow_link_of_a_pasted_report(tmp_path):
    (tmp_path / "topo.txt").write_text(TOPOLOGY)
    (tmp_path / "smi.txt").write_text(query(FULL, FULL, FULL, (4, "16x", "4x")))
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "topo.txt"), str(tmp_path / "smi.txt")])
    assert result.exit_code == 1 and "(0000:06:00.0) uses x4 of x16" in result.output
    found = fc.diagnose([tmp_path / "topo.txt", tmp_path / "smi.txt"]).findings
    assert [one.cause for one in found] == ["downgraded_link"]
    lines = (tmp_path / "smi.txt").read_text().splitlines()
    gpu = lines.index("GPU 00000000:06:00.0")
    line = next(
        number for number, text in enumerate(lines, 1) if number > gpu and text.split() == ["Current", ":", "4x"]
    )
    assert found[0].origin == f"{tmp_path / 'smi.txt'}:{line}"


@pytest.mark.parametrize(
    "text",
    [
        table("NVIDIA L4") + "|   1  a" + " " * 200_000 + "x\n",
        query(FULL) + "  a" + " " * 200_000 + ":\n",
        listed("NVIDIA L4") + "GPU 1: " + "a" * 200_000 + "\n",
    ],
)
def test_long_lines_take_linear_time(tmp_path, text):
    started = time.process_time()
    assert len(values_in(text, Quantity.GPU_MODEL)) == 1
    assert time.process_time() - started < 5, "quadratic time takes minutes"


@given(st.sampled_from([query(FULL, FULL), table("NVIDIA L4"), listed("NVIDIA L4", "NVIDIA L4")]), st.data())
def test_damaged_reports_are_read_or_rejected(tmp_path_factory, text, data):
    start = data.draw(st.integers(0, len(text)))
    text = text[:start] + data.draw(st.text(max_size=20)) + text[start + data.draw(st.integers(0, 200)) :]
    path = tmp_path_factory.mktemp("damaged") / "smi.txt"
    facts = facts_of_text(text, str(path))
    assert all("smi.txt" in str(problem) for problem in facts.problems)
    assert all(value <= 6 for value in facts.values(Quantity.LINK_GENERATION))
    assert all(value <= 32 for value in facts.values(Quantity.CURRENT_WIDTH))
