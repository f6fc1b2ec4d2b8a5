"""A slow GPU in one or several measurements, and a link that is stated too slow."""

import pytest

TOPOLOGY = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n" + "".join(
    f"GPU{row}\t" + "\t".join("X" if row == column else "NODE" for column in range(4)) + "\t0-31\t0\n"
    for row in range(4)
)


def matrix(slow):
    rows = [
        f"{row:6d} "
        + " ".join(f"{900 if row == column else slow if 3 in (row, column) else 20.1:6.2f}" for column in range(4))
        for row in range(4)
    ]
    return "\n".join(
        ["Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "   D\\D     0      1      2      3", *rows, ""]
    )


def test_two_measurements_of_a_slow_gpu_are_one_cause(first):
    found = first(TOPOLOGY, matrix(5.7), matrix(5.72))
    assert [one.cause for one in found.findings] == ["slow_endpoint"]
    assert any("slow copies of GPU 3 are in" in note for note in found.notes)
    assert "ACSCtl" not in found.findings[0].remedy


@pytest.mark.parametrize(("link", "is_possible"), [("gen3x4", False), ("gen4x8", False), ("gen4x16", True)])
def test_copies_faster_than_a_stated_link_refute_it(first, link, is_possible):
    answer = str(first(TOPOLOGY, matrix(20.1), link=link, gpu="RTX 4090").verdict)
    assert ("within the expected range" in answer) == is_possible
    assert ("is faster than stated" in answer) == (not is_possible)


def test_the_remedy_follows_the_answer(first):
    lines = repr(first(TOPOLOGY, matrix(5.7))).splitlines()
    assert lines[0].startswith("slower than expected: GPU 3") and lines[1].startswith("try: compare LnkSta")
    assert len(lines) == 2


def report(*gpus):
    """Return output of nvidia-smi -q about GPUs, by bus and width."""
    lines = ["==============NVSMI LOG==============", ""]
    for bus, width in gpus:
        lines += [
            f"GPU 00000000:{bus}:00.0",
            "    Product Name : NVIDIA GeForce RTX 4090",
            "    PCI",
            "        GPU Link Info",
        ]
        lines += ["            PCIe Generation", "                Max : 4", "            Link Width"]
        lines += ["                Max : 16x", f"                Current : {width}x"]
    return "\n".join([*lines, ""])


DEVICES = "".join(
    f"Device: {number}, NVIDIA GeForce RTX 4090, pciBusID: {bus}, pciDeviceID: 0, pciDomainID:0\n"
    for number, bus in enumerate(("1", "41", "81", "c1"))
)


def test_report_of_some_gpus_belongs_to_those_with_its_addresses(first):
    found = first(
        TOPOLOGY, f"[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n{DEVICES}{matrix(5.7)}", report(("C1", 4))
    )
    assert found.findings[0].text.startswith("the link of GPU 3 (0000:c1:00.0) uses x4 of x16")
    assert not any("it is not used" in str(one) or "does not use it" in one.text for one in found.findings)


def test_narrow_link_of_a_report_of_other_gpus_is_still_stated(first):
    found = first(TOPOLOGY, report(("01", 16), ("C1", 4)))
    assert found.findings[0].text.startswith("the link of 0000:c1:00.0 uses x4 of x16")
    assert any("the forecast does not use it" in one.text for one in found.findings)
