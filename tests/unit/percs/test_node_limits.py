"""Tests of injection and ejection of nodes as resources of a network, beside its links."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.percs.loads import matrix_traffic, route
from fabricast.percs.network import TwoLevelNetwork

NETWORK = TwoLevelNetwork(3, drawers_per_group=2, routers_per_drawer=2, cores_per_router=2)


@given(st.lists(st.tuples(st.integers(0, 23), st.integers(0, 23), st.integers(1, 9)), min_size=1, max_size=40))
def test_node_bytes_are_those_of_a_plain_sum(messages):
    source, target, size = (np.array(column) for column in zip(*messages, strict=True))
    router = np.arange(24, dtype=np.int32) // 2
    for routing in ("direct", "indirect"):
        traffic = matrix_traffic(source, target, size.astype(np.float64), router, NETWORK)
        loads = route(traffic, NETWORK, routing)
        sent, received = np.zeros(NETWORK.routers), np.zeros(NETWORK.routers)
        for one, other, count in messages:
            if router[one] != router[other]:
                sent[router[one]] += count
                received[router[other]] += count
        assert loads.injected.tolist() == sent.tolist() and loads.ejected.tolist() == received.tolist()
        assert loads.limit[0] >= loads.bottleneck[0]


def test_network_card_of_a_node_is_named_as_limit(tmp_path):
    # A halo exchange of 4 x 4 x 4 ranks, 8 per node: every link and network card has 25 GB/s.
    rank = np.arange(64).reshape(4, 4, 4)
    rows = [
        f"{one},{other},1048576"
        for axis in range(3)
        for shift in (1, -1)
        for one, other in zip(rank.ravel(), np.roll(rank, shift, axis).ravel(), strict=True)
    ]
    (tmp_path / "halo.csv").write_text("source,target,size_bytes\n" + "\n".join(rows) + "\n")
    (tmp_path / "network.yaml").write_text(
        "groups: 2\ndrawers_per_group: 1\nrouters_per_drawer: 4\ncores_per_router: 8\nll_bytes_per_s: 25.0e+9\n"
        "lr_bytes_per_s: 25.0e+9\nd_bytes_per_s: 100.0e+9\ninjection_bytes_per_s: 25.0e+9\n"
    )
    options = ["--network", str(tmp_path / "network.yaml"), "--mapping", "DEF"]
    result = CliRunner().invoke(app, ["network", "loads", str(tmp_path / "halo.csv"), *options])
    assert result.exit_code == 0, result.output
    assert re.search(r"nodes: injection ([\d.]+) ms, ejection \1 ms at 25 GB/s; limit: injection, \1 ms", result.output)
    simulated = CliRunner().invoke(app, ["network", "simulate", str(tmp_path / "halo.csv"), *options])
    assert simulated.exit_code == 0, simulated.output
    match = re.search(r"arrives after ([\d.]+) ms; busiest resource \(injection\) ([\d.]+) ms", simulated.output)
    assert float(match[1]) >= float(match[2])
    loads = fc.link_loads(tmp_path / "halo.csv", mapping="DEF", network=tmp_path / "network.yaml")
    limiting = loads[(loads["routing"] == "direct") & loads["bottleneck"]]["class"].tolist()
    assert limiting == ["injection"]
    assert loads.groupby("routing")["time_s"].max()["direct"] == pytest.approx(float(match[2]) * 1e-3, rel=1e-3)
