"""Default rates of machines without measurements, and their errors on public machines that are left out."""

import numpy as np
import pandas as pd
import pytest

from fabricast.core.resources import published
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.inputs.pair_rates import (
    BOTH_WAYS,
    ONE_WAY,
    SWITCHED,
    direct_link_share,
    pair_rows,
    pcie_share,
    staged_share,
)
from fabricast.pcie.tables.default_errors import default_errors


def test_shares_are_medians_over_computers():
    """A second computation, with pandas, of the share of Gen4 links."""
    table = pd.read_csv(published() / "pair_rates.csv", comment="#")
    kinds = ["host_to_device", "device_to_host", "one_way_p2p"]
    chosen = table[
        table["kind"].isin(kinds) & (table["pcie_generation"] == "4") & table["width"].isin(["16", "8", "4"])
    ]
    chosen = chosen[~chosen["path_class"].str.startswith(("NV", "xGMI"))]
    shares = chosen["median"] / (31.508 * chosen["width"].astype(float) / 16)
    of_host = shares.groupby(chosen["host"]).median()
    found = pcie_share(4)
    assert found.median == pytest.approx(of_host.median(), rel=1e-3)
    assert found.machines == of_host.size
    assert found.lowest < found.median < found.highest


@pytest.mark.parametrize(
    ("share", "low", "high"),
    [
        (pcie_share(3), 12.0 / 15.75, 13.0 / 15.75),
        (pcie_share(4), 24 / 31.5, 26 / 31.5),
        (staged_share(4, BOTH_WAYS, gpus=8), 20 / 31.5, 30 / 31.5),
        (staged_share(3, BOTH_WAYS, gpus=8), 10 / 15.75, 16 / 15.75),
        (direct_link_share("NVSwitch"), 370 / 450, 276 / 300),
        (staged_share(5, BOTH_WAYS, gpus=8), 43.0 / 63.02, 52.5 / 63.01),
    ],
)
def test_shares_are_those_of_public_machines(share, low, high):
    assert low <= share.median <= high


def test_classes_without_a_machine_are_larger_classes():
    below = staged_share(5, BOTH_WAYS, below_switch=True)
    rows = [row for row in pair_rows() if row["kind"] == "both_ways_staged" and row["path_class"] in SWITCHED]
    assert not any(row["pcie_generation"] == "5" for row in rows)
    assert below.machines and below.lowest * 63 < 43 < below.highest * 63
    assert staged_share(4, ONE_WAY, below_switch=True).median < staged_share(4, ONE_WAY).median
    assert staged_share(4, ONE_WAY, old_geforce=True).median < staged_share(4, ONE_WAY).median
    assert pcie_share(6) == pcie_share(5)
    # The range of NVLink, which few machines have, is not that of xGMI, which reaches less of its nominal rate.
    assert direct_link_share("NVLink").machines < 3 and direct_link_share("xGMI").machines == 3
    assert direct_link_share("NVLink").lowest > direct_link_share("xGMI").highest
    host = next(row["host"] for row in pair_rows() if row["pcie_generation"] == "4" and row["path_class"] == "host")
    assert pcie_share(4, without=host).machines == pcie_share(4).machines - 1


def test_stored_errors_are_those_of_machines_left_out():
    stored = pd.read_csv(published() / "default_errors.csv", comment="#")
    pd.testing.assert_frame_equal(stored, default_errors(), check_exact=False, rtol=1e-3)
    errors = stored.set_index("copy_class")
    many = errors[errors["machines"] >= 10]
    # The defaults are better than the payload share of the links, and their range holds most machines.
    assert (many["median"] < many["link_median"]).all()
    assert many["inside"].between(0.6, 0.95).all()
    assert np.isfinite(stored.drop(columns="copy_class").to_numpy()).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GeForce RTX 5070 Ti", "5070 ti"),
        ("RTX5090", "5090"),
        ("NVIDIA L20", "l20"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H800", "h800"),
        ("NVIDIA A800-SXM4-80GB", "a800 sxm4"),
        ("Quadro RTX 6000", "rtx 6000"),
        ("NVIDIA RTX 6000 Ada Generation", "6000 ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx pro 6000"),
        ("AMD Instinct MI300X OAM", "mi300x"),
    ],
)
def test_names_are_matched_by_words(name, words):
    assert gpu_model(name).words == words


@pytest.mark.parametrize("name", ["NVIDIA X5090", "AMD Instinct MI300A", "NVIDIA L40X", "H2000", "a future GPU"])
def test_unknown_names_are_unknown(name):
    assert not is_known_gpu(name)
