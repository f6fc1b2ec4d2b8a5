"""Measured numbers whose verdict depends on what was measured: buffers, processors, NVLinks, sides of a connection."""

import pytest

OSU = "# OSU MPI-CUDA Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n268435456          {}\n"


def test_tables_with_buffers_of_other_memory_are_not_compared(first):
    run = "$ mpirun -n 2 osu_bw -m 268435456:268435456 -d cuda {}\n" + OSU
    both = first(run.format("D D", 279573.25) + run.format("H D", 23751.60) + run.format("H D", 23736.70))
    assert not both.findings
    assert "2 tables of osu_bw agree" in str(both.verdict)
    slow = first(run.format("H D", 23751.60) + run.format("H D", 9736.70))
    assert [one.cause for one in slow.findings] == ["slow_messages"]


def test_of_two_outputs_side_by_side_one_is_read(first):
    table = (
        "# OSU MPI Latency Test v5.6.2    [1,0]<stdout>:# OSU MPI Latency Test v5.6.2\n"
        "# Size          Latency (us)    [1,0]<stdout>:# Size          Latency (us)\n"
        "1                       0.28    [1,0]<stdout>:1                       2.44\n"
        "2                       0.28    [1,0]<stdout>:2                       1.01\n"
    )
    assert "1 B last 0.28 us" in " ".join(map(str, first(table).notes))


def p2p(model, rate):
    rows = "".join(f"     {a} " + " ".join(f"{900 if a == b else rate:.2f}" for b in range(2)) + "\n" for a in range(2))
    devices = "".join(f"Device: {gpu}, {model}, pciBusID: 4{gpu}, pciDeviceID: 0, pciDomainID:0\n" for gpu in range(2))
    return f"{devices}Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n{rows}"


@pytest.mark.parametrize("model", ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200"])
def test_a_module_with_nvlinks_that_copies_over_pcie_is_slow(first, model):
    found = first(p2p(model, 24.0))
    assert [one.cause for one in found.findings] == ["unused_nvlinks"]
    assert "24 to 24 GB/s, as over PCIe" in found.findings[0].text
    assert str(found.verdict).startswith("a fault is stated") or str(found.verdict).startswith("slower")
    assert not first(p2p(model, 270.0)).findings


@pytest.mark.parametrize("model", ["NVIDIA A100-PCIE-40GB", "NVIDIA H200 NVL", "NVIDIA H100 PCIe"])
def test_cards_with_a_bridge_need_no_nvlinks(first, model):
    assert "unused_nvlinks" not in [one.cause for one in first(p2p(model, 24.0)).findings]


ROCM = """          RocmBandwidthTest Version: 2.6.0
          Device: 0,  {0}
          Device: 1,  {0}
          Device: 2,  AMD Instinct MI100{1}
          Device: 3,  AMD Instinct MI100{2}

          Unidirectional copy peak bandwidth GB/s
          D/D       0           1           2           3
          0         N/A         N/A         28.4        27.1
          1         N/A         N/A         25.9        28.5
          2         28.3        25.1        900.0       49.0
          3         26.3        28.4        49.1        900.0
"""


def test_processors_in_a_matrix_are_no_gpus(first):
    found = first(ROCM.format("AMD EPYC 7763 64-Core Processor", ",  GPU-4a, 23:0.0", ",  GPU-7d, 83:0.0"))
    assert not [one for one in found.findings if "NUMA" in one.text]


def test_gpus_without_addresses_are_known_by_their_names(first):
    text = (
        "          RocmBandwidthTest Version: 2.6.0\n          Device: 1,  AMD Radeon RX 9070 XT\n"
        "          Device: 2,  AMD Radeon RX 9070 XT\n\n          Unidirectional copy peak bandwidth GB/s\n"
        "          D/D       1           2\n          1         540.849     14.045\n          2         14.046      540.064\n"
    )
    assert "direct copies reach 14 GB/s" in str(first(text).verdict)


def test_the_empty_row_of_a_server_is_no_rate(first):
    rows = (
        "[  5]   0.00-10.04  sec  0.00 Bytes  0.00 bits/sec                  sender\n"
        "[  5]   0.00-10.04  sec  3.86 GBytes  3.31 Gbits/sec                  receiver\n"
    )
    found = first(rows)
    assert "iperf: 3.31 Gbit/s" in " ".join(map(str, found.statements))
    assert not found.findings


def test_a_range_of_bandwidth_test_is_read(first):
    row = "bandwidthTest-{}, Bandwidth = {} GB/s, Time = 0.00000 s, Size = {} bytes, NumDevsUsed = 1\n"
    within = first("".join(row.format("D2D", rate, size) for rate, size in ((0.8, 1000), (864.3, 1 << 20))))
    assert "within the memory of a GPU" in str(within.verdict)
    copied = first("Device 0: NVIDIA GeForce RTX 3090\n" + row.format("H2D-Pinned", 25.1, 1 << 25))
    assert "copies from host memory reach 25.1 GB/s" in str(copied.verdict)


def test_copies_to_and_from_a_gpu_are_compared(first):
    run = "$ mpirun -n 2 osu_bw -m 268435456:268435456 -d cuda {}\n" + OSU
    found = first(run.format("D H", 6100.0) + run.format("H D", 303.0))
    assert [one.cause for one in found.findings][:1] == ["slow_messages"]
    assert "'D H' and 'H D'" in found.findings[0].text


def test_slow_copies_through_host_memory_name_a_narrower_link(first):
    rows = "".join(f"     {a} " + " ".join(f"{830 if a == b else 5.89:.2f}" for b in range(4)) + "\n" for a in range(4))
    devices = "".join(
        f"Device: {gpu}, GeForce RTX 3090, pciBusID: 4{gpu}, pciDeviceID: 0, pciDomainID:0\n" for gpu in range(4)
    )
    table = f"Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2      3\n{rows}"
    found = first(devices + table)
    assert "this is the rate of a link of Gen4 x8 or Gen3 x16" in found.findings[0].text
