"""Tests of DMA rates: packet simulator, published formula, fit on one host."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.packets.dma_rates import dma_bytes_per_s, effective_rate_bytes_per_s, packet_gap_s
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.packets.simulator import simulate_once
from fabricast.pcie.tables.dma_rates import dma_rate_tables
from fabricast.pcie.topology.regular import regular_tree
from tests.conftest import REPOSITORY

LINK = PacketHardware(generation=3, width=8, payload_bytes=256)
RATES = REPOSITORY / "config" / "published" / "pcie_dma_rates.csv"


def test_rate_of_whole_packets_equals_packet_simulator():
    size = 64 * 2**20
    (end_s,) = simulate_once(regular_tree("two", (2,)), from_arcs([[(0, 1)]], size_bytes=size), LINK).end_s
    assert size / end_s == pytest.approx(dma_bytes_per_s([512], LINK, header_bytes=LINK.header_bytes)[0], rel=1e-5)


@given(st.integers(1, 5000), st.sampled_from([128, 256, 512]), st.integers(12, 40), st.floats(0, 1e-7))
def test_rates_equal_sum_over_packets(size, payload, header, gap_s):
    link = PacketHardware(payload_bytes=payload)
    left, time_s = size, 0.0
    while left > 0:
        in_packet = min(left, payload)
        time_s += (-(-in_packet // 4) * 4 + header) / link.raw_bytes_per_s + gap_s
        left -= in_packet
    assert dma_bytes_per_s([size], link, header_bytes=header, gap_s=gap_s)[0] == pytest.approx(size / time_s)


@pytest.mark.parametrize(("size", "write", "read"), [(256, 52.92, 53.69), (512, 52.92, 53.69), (1024, 52.92, 53.69)])
def test_published_formula_reproduces_published_numbers(size, write, read):
    """Compare with lines of bw_calc.dat, which round intermediate numbers."""
    for header, expected in ((24, write), (20, read)):
        found = effective_rate_bytes_per_s([size], LINK, header_bytes=header)[0] * 8e-9
        assert found == pytest.approx(expected, abs=0.07)


def test_gap_is_fitted_on_one_host(tmp_path):
    tables = dma_rate_tables(RATES)
    gap = tables["parameter"].set_index("name").loc["packet_gap", "value"]
    assert gap == pytest.approx(2.07e-9, rel=0.001)
    # The fit does not depend on the rates of other hosts.
    text = RATES.read_text()
    other = tmp_path / "rates.csv"
    other.write_text("\n".join(line for line in text.splitlines() if "E5-2630" not in line))
    assert dma_rate_tables(other)["parameter"]["value"].to_list() == tables["parameter"]["value"].to_list()
    merged = tables["prediction"].merge(tables["reference"], on=["case_id", "quantity"])
    selected = merged[
        (merged["model"] == "packets_with_gap") & merged["case_id"].str.contains("E5-2637v3.2048", regex=False)
    ]
    writes = selected[selected["quantity"] == "DMA write rate"]
    assert np.allclose(writes["value_x"], writes["value_y"], rtol=1e-3)
    assert (tables["reference"]["tag"] == "measured").all()


@pytest.mark.parametrize(
    ("line", "message"),
    [("host,write_rate,512,50,GB/s", "expected write_rate"), ("host,rate,512,50,Gbit/s", "expected write_rate"),
     ("host,write_rate,many,50,Gbit/s", "size_bytes is 'many'")],
)  # fmt: skip
def test_invalid_rates_are_rejected(tmp_path, line, message):
    path = tmp_path / "rates.csv"
    path.write_text(f"host,quantity,size_bytes,value,unit\n{line}\n")
    with pytest.raises(InputError, match=message):
        dma_rate_tables(path)
    with pytest.raises(InputError, match="contains no multiple of 256"):
        packet_gap_s([100], [1e9], LINK, 24)
    with pytest.raises(InputError, match="at least 1"):
        dma_bytes_per_s([0], LINK, header_bytes=24)


def test_reference_values_equal_public_files(shared_data):
    public = pd.read_csv(shared_data / "pcie_bench" / "hsw-Xeon-E5-2637v3_supermicro" / "bw_dma_sz_sweep.csv")
    reference = dma_rate_tables(RATES)["reference"].set_index(["case_id", "quantity"])["value"]
    for test, quantity in (("BW_DMA_WR", "DMA write rate"), ("BW_DMA_RD", "DMA read rate")):
        (rate,) = public[(public["Test"] == test) & (public["SZ"] == 768)]["BW (GB/s)"]
        assert reference["dma.Xeon E5-2637v3.768", quantity] * 8e-9 == pytest.approx(rate, abs=1e-3)
