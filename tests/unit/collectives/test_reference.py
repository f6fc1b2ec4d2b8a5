"""Public measurements of NVLink nodes and clusters, and logs that are compared with them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.collectives.reference import SizeFit, fitted, gpu_family, left_out_errors, reference_of, scaled
from fabricast.core.errors import InputError
from fabricast.core.resources import published

SIZES = [8, 32768, 1 << 20, 1 << 26, 1 << 30, 1 << 33]


def log(gpu, ranks, nodes, start_us, gb_per_s, sizes=SIZES, first=""):
    """Return output of nccl-tests whose times are a start and a bus bandwidth."""
    factor = 2 * (ranks - 1) / ranks
    lines = [first + "# Collective test starting: all_reduce_perf"]
    lines += [
        f"#  Rank {rank:2d} Group  0 Pid {4242 + rank} on node{rank * nodes // ranks:02d} device {rank % (ranks // nodes)} "
        f"[0000:{16 + rank % (ranks // nodes):02x}:00] {gpu}"
        for rank in range(ranks)
    ]
    lines.append("#       size         count      type   redop    root     time   algbw   busbw  #wrong")
    for size in sizes:
        time = start_us + size * factor / gb_per_s / 1e3
        rate = size / time / 1e3
        lines.append(f"{size} {size // 4} float sum -1 {time:.2f} {rate:.2f} {rate * factor:.2f} 0")
    return "\n".join(lines) + "\n"


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text, **options):
        (tmp_path / "all_reduce.log").write_text(text)
        return fc.diagnose(tmp_path / "all_reduce.log", **options)

    return diagnose


def test_values_are_those_of_the_rows():
    found = fc.reference("H200", sizes=["8 GiB"])
    times = pd.read_csv(published() / "collectives" / "cluster_times.csv", comment="#", keep_default_na=False)
    machines = pd.read_csv(published() / "collectives" / "cluster_machines.csv", comment="#").set_index("machine")
    rows = times[(times["operation"] == "all_reduce") & (times["nodes"] == 1) & (times["ranks"] == 8)]
    is_hopper = rows["machine"].map(machines["gpu"]).str[:4].isin(["H100", "H200"])
    rows = rows[(rows["size_bytes"] == 8 << 30) & is_hopper]
    fastest = rows.groupby("machine")["median_us"].min()
    row = found.table.iloc[0]
    assert row["machines"] == fastest.size == 6 and set(fastest.index) <= set(found.machines)
    assert row["median_us"] == pytest.approx(fastest.median()) and row["longest_us"] == pytest.approx(fastest.max())
    assert row["bus_gb_per_s"] == pytest.approx((8 << 30) * 1.75 / fastest.median() / 1e3)
    assert any("Ring on stas-h200: 367 GB/s" in note for note in found.notes)


def test_neighbouring_classes_are_named_as_such():
    found = fc.reference("B200", nodes=4, sizes=["1 GiB"])
    assert found.is_neighbour and found.words == "2 nodes of 8 x B200"
    assert not fc.reference("GH200", gpus=4, nodes=16, sizes=["1 MiB"]).is_neighbour
    between = fc.reference("H100", nodes=5, sizes=["1 GiB"])
    assert any("the class on the other side, " in note for note in between.notes)
    with pytest.raises(
        InputError, match="is 'V100', of which no all_gather was published; there are .* and RTX 2080 Ti over PCIe"
    ):
        fc.reference("V100", "all_gather")
    with pytest.raises(InputError, match="network"):
        fc.reference("H100", nodes=2, network="token ring")
    with pytest.raises(InputError, match="expected 2 to"):
        fc.reference("H100", gpus=1)


def test_the_command_shows_the_measured_sizes_of_a_class_with_few():
    printed = CliRunner().invoke(app, ["reference", "--gpu", "H100", "--nodes", "16"]).output.splitlines()
    rows = printed[2 : next(number for number, line in enumerate(printed) if "source:" in line)]
    sizes = fc.reference("H100", nodes=16, sizes=["1 GiB"]).measured_sizes
    assert len(rows) == len(sizes) and not any(row.rstrip().endswith("-") for row in rows)


def test_faulty_runs_are_marked_and_no_reference():
    found = fc.reference("MI300X", sizes=["8"])
    assert "azure-mi300x" not in found.machines and any("azure-mi300x" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("A100-PCIE-40GB", "A100 PCIe"),
        ("H100 NVL", "H100 NVL"),
        ("GB200", "GB200"),
        ("AMD Instinct MI325X", "MI325X"),
        ("NVIDIA L4", "NVIDIA L4"),
    ],
)
def test_families(name, family):
    assert gpu_family(name) == family


def test_fits_recover_their_parameters():
    bus = 2.0 ** np.arange(3, 33)
    truth = SizeFit(2e-5, 2e-12, 1e-8)
    assert fitted(bus, truth.times_s(bus)) == pytest.approx(truth, rel=1e-6)
    slower = SizeFit(4e-5, 6e-12, 3e-8)
    assert scaled(truth, bus, slower.times_s(bus)) == pytest.approx(slower, rel=1e-6)


def test_stored_errors_are_those_of_machines_left_out():
    stored = pd.read_csv(published() / "collectives" / "cluster_errors.csv", comment="#")
    pd.testing.assert_frame_equal(stored, left_out_errors(), check_exact=False, rtol=1e-3)
    node = stored.set_index(["network", "band"]).loc[("one node", "from 1 MiB")]
    assert node["median"] < 0.07 and node["machines"] >= 5
    # Two rows of the machine make most forecasts better.
    assert (stored["median_with_two_rows"] < stored["median"]).mean() > 0.7


def test_a_healthy_node_is_within_the_range_without_a_topology(diagnosed):
    found = diagnosed(log("NVIDIA H200", 8, 1, 20, 480))
    assert str(found.verdict).startswith(
        "within the expected range: all_reduce of 8 GiB reaches 480 GB/s of bus bandwidth, 478 to 481 GB/s on 6 public"
    )
    assert not found.findings and any("NVLink SHARP moves fewer bytes" in one for one in found.notes)


def test_nvlink_sharp_that_is_not_used_is_named(diagnosed):
    (finding,) = diagnosed(log("NVIDIA H200", 8, 1, 30, 367)).findings
    assert finding.cause == "nvls_unused"
    first = "n:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
    (finding,) = diagnosed(log("NVIDIA H200", 8, 1, 30, 367, first=first)).findings
    assert finding.cause == "nvls_excluded" and finding.remedy == "unset NCCL_ALGO"


def test_two_nodes_are_compared(diagnosed):
    found = diagnosed(log("NVIDIA H100 80GB HBM3", 16, 2, 60, 90))
    assert [one.cause for one in found.findings] == ["slower_than_public_machines"]
    assert "90 GB/s of bus bandwidth, 338 to 479 GB/s on 8 public machines (2 nodes of 8 x H100)" in str(found.verdict)
    assert not diagnosed(log("NVIDIA H100 80GB HBM3", 16, 2, 60, 450)).findings


def test_late_small_sizes_are_a_fault_of_the_host(diagnosed):
    found = diagnosed(log("AMD Instinct MI300X", 8, 1, 50, 310, SIZES[:4]))
    assert found.findings[0].cause == "late_small_sizes" and "numa_balancing" in found.findings[0].remedy


def test_other_gpus_need_a_topology(diagnosed):
    found = diagnosed(log("NVIDIA L4", 4, 1, 50, 10, SIZES[:4]))
    assert str(found.verdict).startswith("nothing could be judged: the table of ") and "lacks a topology" in str(
        found.verdict
    )


def test_command_prints_sources(tmp_path):
    result = CliRunner().invoke(app, ["reference", "--gpu", "H200", "--sizes", "8GiB", "-o", str(tmp_path / "r.csv")])
    assert result.exit_code == 0 and len(pd.read_csv(tmp_path / "r.csv")) == 1
    result = CliRunner().invoke(app, ["reference", "--gpu", "H200", "--sizes", "8GiB"])
    assert "public machines (range)" in result.stdout and "source: github" in result.stdout


def test_settings_that_do_not_exclude_nvls_are_no_cause(diagnosed):
    first = "n:1:2 [0] NCCL INFO NCCL_ALGO set by environment to ^Tree\n"
    assert not diagnosed(log("NVIDIA H200", 8, 1, 20, 476, first=first)).findings


def test_a_largest_size_of_some_mebibytes_is_compared(diagnosed):
    found = diagnosed(log("NVIDIA H100 80GB HBM3", 8, 1, 60, 20, [1 << 20, 1 << 24]))
    assert str(found.verdict).startswith("slower than expected")


def test_another_class_is_no_expected_range(diagnosed):
    found = diagnosed(log("NVIDIA B200", 40, 5, 60, 40))
    assert str(found.verdict).startswith("possibly slower than expected: all_reduce of 8 GiB on 40 GPUs")
    assert not found.has_causes
    assert any("(the nearest class, " in text for text in found.notes)


@pytest.mark.parametrize("rate", [-1.0, 0.0, float("nan")])
def test_network_rates_are_positive(rate):
    with pytest.raises(InputError, match="gbit_s"):
        fc.reference("H100", nodes=2, gbit_s=rate)


def test_the_measured_value_is_that_of_the_log(diagnosed):
    text = log("NVIDIA H100 80GB HBM3", 2, 2, 60, 11.6, [1 << 26, 1 << 33])
    assert "reaches 11.6 GB/s of bus bandwidth" in str(diagnosed(text).verdict)


def test_collective_prints_public_measurements_beside_forecasts_over_direct_links(tmp_path):
    rows = "\n".join(
        f"GPU{row}\t" + "\t".join("X" if row == column else "NV12" for column in range(8)) + "\t0-55\t0"
        for row in range(8)
    )
    head = "\t" + "\t".join(f"GPU{number}" for number in range(8)) + "\tCPU Affinity\tNUMA Affinity\n"
    (tmp_path / "topo.txt").write_text(f"{head}{rows}\n")
    call = ["collective", str(tmp_path / "topo.txt"), "--sizes", "1GiB"]
    result = CliRunner().invoke(app, [*call, "--gpu", "A100-SXM4-80GB", "--format", "table"])
    assert result.exit_code == 0
    assert "public: median of 4 machines (8 x A100)" in result.stdout
    assert "specify gpu" in str(CliRunner().invoke(app, call).exception)


def test_nothing_is_known_in_a_wide_gap_between_measured_sizes():
    found = fc.reference("H200", nodes=16, sizes=[16.0, 2.0**10, 2.0**20, 2.0**30, 2.0**34])
    assert found.table["machines"].tolist() == [1, 0, 0, 0, 1]
    assert found.table["median_us"].isna().tolist() == [False, True, True, True, False]


def test_machines_with_another_network_are_named():
    result = CliRunner().invoke(
        app, ["reference", "--gpu", "H100", "--nodes", "2", "--operation", "all_gather", "--network", "Slingshot"]
    )
    assert result.exit_code == 0, result.output
    assert "gcp-a3mega (Ethernet, 8 x 200 Gbit/s), source: " in result.output
    assert "no public machine of this class has the network that you state" in result.output


def test_gpus_over_pcie_have_the_rows_of_their_machines():
    found = fc.reference("NVIDIA GeForce RTX 4090", gpus=8, sizes=["128 MiB"])
    assert found.words == "8 x RTX 4090 over PCIe"
    assert found.table["machines"].tolist() == [2]
    assert 14.0 < found.table["lowest_gb_per_s"][0] < 15.0 < found.table["highest_gb_per_s"][0] < 21.0
    assert any("copies through host memory: 14.5 GB/s at 128 MiB" in note for note in found.notes)
    assert fc.reference("RTX 4090", gpus=3, sizes=["128 MiB"]).is_neighbour


def test_the_nearest_class_has_the_sizes_that_are_asked_for():
    found = fc.reference("H100", nodes=32, sizes=["1 MiB", "64 MiB", "1 GiB", "8 GiB"])
    assert found.is_neighbour
    assert (found.table["machines"] > 0).sum() >= 3


def test_two_machines_have_no_middle_and_the_table_has_formats():
    asked = ["reference", "--gpu", "RTX 4090", "--sizes", "128MiB"]
    text = CliRunner().invoke(app, asked).output
    assert "14.5 to 20.6" in text and " 17 " not in text and "median" not in text
    rows = CliRunner().invoke(app, [*asked, "--format", "json"]).output
    table = fc.reference("RTX 4090", sizes=["128MiB"]).table
    assert [row["machines"] for row in json.loads(rows)] == table["machines"].tolist() == [2]
    assert CliRunner().invoke(app, [*asked, "--format", "csv"]).output.splitlines()[0] == ",".join(table.columns)
    assert CliRunner().invoke(app, [*asked, "--format", "yaml"]).exit_code


def test_two_nodes_are_no_expectation_for_more():
    asked = ["reference", "--gpu", "H100", "--nodes"]
    note = "two nodes reach more than larger clusters"
    assert note in CliRunner().invoke(app, [*asked, "3"]).output
    assert note not in CliRunner().invoke(app, [*asked, "2"]).output


def test_runs_of_one_process_are_a_class_of_their_own():
    one, several = (
        reference_of("A100-SXM4-80GB", 8, 1, "all_reduce", [2.0**20, 2.0**24], shares_process=shares)
        for shares in (True, False)
    )
    assert {"azure-sb-a100", "stas-a100"} <= set(one.machines) and "oci-a100" in several.machines
    assert not {"azure-sb-a100", "stas-a100"} & set(several.machines) and "oci-a100" not in one.machines
    # The launch of eight kernels by one process takes longer.
    assert (one.table["median_us"] > several.table["median_us"]).all()
