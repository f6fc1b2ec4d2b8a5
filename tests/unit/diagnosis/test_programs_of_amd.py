"""Programs that advice names on machines with GPUs of AMD."""

import itertools

import pytest

import fabricast as fc
from fabricast.diagnosis.matrices import MeasuredRate, slow_pairs

ROW = "{0} {1} float sum -1 {2:.2f} {3:.2f} {4:.2f} 0\n"


def table(host, rate, gpu):
    ranks = "".join(f"#  Rank {n} Group  0 Pid 1 on {host} device {n} [0000:{n}5:00.0] {gpu}\n" for n in range(8))
    rows = "".join(ROW.format(2**n, 2**n // 4, 2**n * 1.75 / rate / 1e3, rate / 1.75, rate) for n in (28, 30, 33))
    return f"# Collective test starting: all_reduce_perf\n{ranks}# size count type redop root time algbw busbw #wrong\n{rows}"


@pytest.mark.parametrize(
    ("gpu", "rate", "program"),
    [("AMD Instinct MI300X", 190.0, "rocm-smi"), ("NVIDIA H100 80GB HBM3", 290.0, "nvidia-smi")],
)
def test_advice_names_the_programs_of_the_vendor(first, gpu, rate, program):
    remedies = " ".join(one.remedy for one in first(table("n1", rate, gpu)).findings)
    assert program in remedies
    assert ("nvidia" in remedies) == (program == "nvidia-smi")


def matrix(pairs, model="AMD Instinct MI300X"):
    """Return output of rocm_bandwidth_test: one-way copies of 48 GB/s between 8 GPUs, with other rates of some pairs."""
    devices = "          Device: 0,  AMD EPYC 9654 96-Core Processor\n"
    devices += "".join(f"          Device: {n + 1},  {model},  GPU-1{n},  {n}5:0.0\n" for n in range(8))
    header = "          D/D       " + "".join(f"{n:<13}" for n in range(9)) + "\n\n"
    rows = ""
    for one in range(9):
        cells = []
        for other in range(9):
            if one == other:
                cells.append("N/A" if one == 0 else "3800.125")
            elif 0 in (one, other):
                cells.append("55.125")
            else:
                cells.append(f"{pairs.get(tuple(sorted((one - 1, other - 1))), 48.0 + 0.01 * other):.3f}")
        rows += f"          {one:<10}" + "".join(f"{cell:<13}" for cell in cells) + "\n\n"
    return f"          RocmBandwidthTest Version: 2.6.0\n\n{devices}\n          Unidirectional copy peak bandwidth GB/s\n\n{header}{rows}"


@pytest.mark.parametrize("rate", [26.0, 12.0])
def test_a_slow_link_of_xgmi_is_named_and_equal_ones_are_no_fault(first, rate):
    healthy = first(matrix({}))
    assert not healthy.findings
    found = first(matrix({(2, 6): rate}))
    assert "2>6, 6>2" in found.findings[0].text and "their direct link is slow" in found.findings[0].text
    assert "nvidia" not in found.findings[0].remedy


def test_an_interpolation_is_not_scaled_to_other_numbers(tmp_path):
    log = tmp_path / "rccl.log"
    log.write_text(table("n1", 310.0, "AMD Instinct MI300X").replace("\n", "\n"))
    with pytest.raises(fc.InputError, match="the log is of 8 GPUs, expected 32"):
        fc.cluster_collective(log, nodes=4, nic="8x400", sizes=["8 GiB"])


def test_a_built_in_node_with_xgmi_has_the_rate_of_its_links():
    found = fc.cluster_collective("mi300x", sizes=["8 GiB"], gpu="MI300X").table
    assert 250 < found["bus_gb_per_s"][0] < 400


def test_a_gpu_whose_links_are_all_slow_is_named_instead_of_its_pairs():
    rates = {
        (str(one), str(other)): MeasuredRate(20e9 if 5 in (one, other) else 48e9, "copies.txt:9")
        for one, other in itertools.permutations(range(8), 2)
    }
    (finding,) = slow_pairs("direct copies", rates, are_linked=True)
    assert finding.text.startswith("GPU 5 reaches 20 GB/s in all its direct copies, the other 42 at least 48 GB/s")
    rates["5", "6"] = MeasuredRate(48e9, "copies.txt:9")
    (finding,) = slow_pairs("direct copies", rates, are_linked=True)
    assert "GPU 5" not in finding.text
