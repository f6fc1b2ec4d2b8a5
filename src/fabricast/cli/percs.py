"""Commands for two-level direct networks: network loads, network simulate, map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import check_range, check_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricast.percs.network import TwoLevelNetwork

__all__ = ["app"]

app = typer.Typer()
network_app = typer.Typer(help="Link loads and packet simulation of two-level direct networks.", no_args_is_help=True)
app.add_typer(network_app, name="network")


_PATTERN = typer.Argument(
    help="Built-in pattern (2D-64, 4D-64, MChalf-64, ...), or file of bytes between ranks: square .csv, .csv or "
    ".parquet with columns source,target,size_bytes, .mtx, or .prof file or folder of Open MPI's monitoring.",
    show_default=False,
)
_GROUPS = typer.Option(help="Number of groups (supernodes); by default that in the name of a built-in pattern.")
_GATEWAY = typer.Option(help="Rule that assigns links between groups to routers: mod, block or rel.")
_MULTIPLICITY = typer.Option(help="Number of parallel links between two groups.")
_TILES = typer.Option(help="Number of instances of a matrix, on separate ranks.")
_NETWORK_FILE = typer.Option(help="YAML file of network parameters, such as routers_per_drawer and d_bytes_per_s.")


_RANKS = typer.Option(
    help="Ranks of a matrix per node; by default the cores of a router (32 on PERCS).", show_default=False
)


def _network(
    pattern: str, groups: int | None, gateway: str, multiplicity: int, file: Path | None, ranks: int | None, tiles: int
) -> TwoLevelNetwork:
    from fabricast.percs.network_files import load_network

    if groups is not None:
        check_range("--groups", groups, 1, 65536)
    check_range("--multiplicity", multiplicity, 1, 65536)
    check_range("--tiles", tiles, 1, 100_000)
    if ranks is not None:
        check_range("--ranks-per-node", ranks, 1, 65536)
    return load_network(
        pattern, groups=groups, gateway=gateway, multiplicity=multiplicity, file=file, ranks_per_node=ranks
    )


def _print(lines: Iterator[str], network: TwoLevelNetwork, *, assumed: bool) -> None:
    """Print the lines of a result, and last the link rates if no file states them."""
    from fabricast.cli.percs_text import rates_line

    for line in lines:
        typer.echo(line)
    if assumed:
        typer.echo(f"assumed link rates (PERCS): {rates_line(network)}; specify yours with --network FILE")


@network_app.command("loads", epilog="Example: fabricast network loads 4D-64 --mapping RNM")
def network_loads(
    pattern: Annotated[str, _PATTERN],
    mapping: Annotated[str, typer.Option(help="Mapping: DEF, BNM, BDM, BSM, RNM, RDM, RNMu or RDMu.")] = "DEF",
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[Path | None, _NETWORK_FILE] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    seed: Annotated[int, typer.Option(help="Seed of random mappings.")] = 1,
) -> None:
    """Print the link loads of a mapped pattern for direct and indirect routing."""
    from fabricast.cli.percs_text import loads_lines

    check_seed(seed)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    _print(loads_lines(pattern, mapping, machine, seed, tiles=tiles), machine, assumed=network is None)


@network_app.command("simulate", epilog="Example: fabricast network simulate 4D-64 --mapping RNM --packet 256KiB")
def network_simulate(
    pattern: Annotated[str, _PATTERN],
    mapping: Annotated[str, typer.Option(help="Mapping: DEF, BNM, BDM, BSM, RNM, RDM, RNMu or RDMu.")] = "DEF",
    routing: Annotated[str, typer.Option(help="Routing: direct or indirect.")] = "direct",
    packet: Annotated[
        str | None,
        typer.Option(help="Packet size; by default 512 KiB, or less if that would pad messages.", show_default=False),
    ] = None,
    window: Annotated[int, typer.Option(help="Packets in flight per router.")] = 256,
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[Path | None, _NETWORK_FILE] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    seed: Annotated[int, typer.Option(help="Seed of random mappings and routes.")] = 1,
) -> None:
    """Simulate a mapped pattern packet by packet and compare it with link loads."""
    from fabricast.cli.percs_text import simulate_lines
    from fabricast.core.units import parse_bytes

    check_seed(seed)
    check_range("--window", window, 1, 1 << 20)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    lines = simulate_lines(
        pattern,
        mapping,
        machine,
        routing,  # type: ignore[arg-type]  # checked there
        packet_bytes=None if packet is None else parse_bytes(packet, "--packet"),
        window=window,
        seed=seed,
        tiles=tiles,
    )
    _print(lines, machine, assumed=network is None)


@app.command(
    "map", epilog="Examples: fabricast map 4D-64 | fabricast map matrix.csv --groups 4 --hosts hosts.txt -o best"
)
def map_pattern(
    pattern: Annotated[str, _PATTERN],
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[Path | None, _NETWORK_FILE] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    proposals: Annotated[int, typer.Option(help="Number of swaps to try.")] = 4_000_000,
    hosts: Annotated[
        str | None,
        typer.Option(
            help="Hosts of all routers: a host file of Open MPI, MPICH or PBS, one name per line, topology.conf of "
            "Slurm, or a node list such as node[01-08]."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Base name of the .rankfile (Open MPI) and .hosts (SLURM, arbitrary) files."
        ),
    ] = None,
) -> None:
    """Search for a mapping without hot-spots for direct routing, and simulate it."""
    from fabricast.cli.percs_text import map_lines
    from fabricast.percs.launcher_files import read_hosts

    check_range("--proposals", proposals, 1000, 1e10)
    check_seed(seed)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    names = None if hosts is None else read_hosts(hosts, ranks_per_node=machine.cores_per_router)
    lines = map_lines(pattern, machine, proposals=proposals, seed=seed, hosts=names, output=output, tiles=tiles)
    _print(lines, machine, assumed=network is None)
