"""Lines of the commands about networks of switches."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from fabricast.api.networks import NetworkPackets, RankMapping
from fabricast.core.short_text import listed
from fabricast.networks.loads import ROUTINGS

#: Gain below which two times are the same.
_SAME = 1.01
#: Most hosts that are listed.
_MOST_HOSTS = 8
_ORDERS = {"listed": "listed order", "random": "random order", "searched": "best order", "blocks": "blocks"}


def mapping_lines(found: RankMapping, *, is_written: bool) -> Iterator[str]:
    """Yield the times of the orders of hosts, what limits them, and what the best order gains."""
    yield f"{found.pattern}; {found.network}"
    yield (
        f"{'order of hosts':14}"
        + "".join(f"{routing + ' ms':>13}" for routing in ROUTINGS)
        + "  busiest link with static routes"
    )
    for order, rows in found.times.groupby("order", sort=False):
        times = rows.set_index("routing")["time_s"]
        link = rows.loc[rows["routing"] == "static", "busiest_link"].iloc[0]
        yield f"{_ORDERS[str(order)]:14}" + "".join(f"{times[one] * 1e3:13.4g}" for one in ROUTINGS) + f"  {link}"
    static = found.times[found.times["routing"] == "static"].set_index("order")["time_s"]
    orders = "with every order" if found.same_ports else "in the best order"
    if "blocks" in static:
        orders += " of consecutive ranks"
    elif found.same_ports:
        orders += " of hosts; other ranks on a node may send less"
    yield f"limit of the ports of hosts: {found.host_s * 1e3:.4g} ms, {orders}"
    yield from _slow_host_lines(found)
    gain = float(static["listed"] / static["searched"])
    if gain < _SAME:
        is_port = found.same_ports and static["listed"] <= found.host_s * _SAME
        limit = "the ports of hosts limit it" if is_port else "the search has no better one"
        yield f"the listed order is kept: {limit}"
    else:
        yield f"with static routes, the best order is {gain:.2f} times as fast as the listed one where links limit"
        for routing in ROUTINGS[1:]:
            times = found.times[found.times["routing"] == routing].set_index("order")["time_s"]
            if times["searched"] > times["listed"] * _SAME:
                ratio = float(times["searched"] / times["listed"])
                yield f"with {routing} routes, the listed order is {ratio:.2f} times as fast as this one"
        if not is_written:
            yield "-o NAME writes it for launchers"
    if "blocks" in static and found.block is not None:
        size, gain = "x".join(map(str, found.block)), float(static["listed"] / static["blocks"])
        if gain >= _SAME:
            yield (
                f"a block of {size} ranks on each node is {gain:.2f} times as fast as consecutive ranks in the listed "
                "order of hosts: --blocks searches an order for blocks"
            )


def _slow_host_lines(found: RankMapping) -> Iterator[str]:
    """Yield the hosts with slower ports, and whether the best order uses them."""
    used = [host for host in found.slow_hosts if host in set(found.table["host"])]
    left = [host for host in found.slow_hosts if host not in used]
    for hosts, words in ((used, "slow the job down"), (left, "are left out of the best order")):
        if hosts:
            yield f"hosts with a slower port than others {words}: {listed(hosts, _MOST_HOSTS)}"


def packet_lines(found: NetworkPackets) -> Iterator[str]:
    """Yield the packet-level time of a pattern and that of its busiest link."""
    yield f"{found.pattern}, static routes; {found.network}"
    yield f"  {found.packets:,} packets of {found.packet_bytes:,.0f} bytes, {found.hops:,} hops"
    yield (
        f"  last packet arrives after {found.elapsed_s * 1e3:.5g} ms; busiest link ({found.busiest_link}) "
        f"{found.busiest_s * 1e3:.5g} ms"
    )


def link_lines(table: pd.DataFrame, pattern: str, routing: str, most: int) -> Iterator[str]:
    """Yield the busiest links."""
    yield f"{pattern}, {routing} routes; {table.attrs['network']}"
    if table.empty:
        yield "no message crosses the network: all ranks that exchange messages are on one host; see --ranks-per-node"
        return
    yield f"{'ms':>10} {'MiB':>10} {'GB/s':>7}  link"
    for row in table.head(most).to_dict("records"):
        rate = row["capacity_bytes_per_s"] / 1e9
        yield f"{row['time_s'] * 1e3:10.4g} {row['bytes'] / 2**20:10.4g} {rate:7.4g}  {row['link']}"
    if len(table) > most:
        yield f"and {len(table) - most:,} more links with bytes"
