"""Commands for networks between nodes: network loads, network simulate, map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import check_range, check_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricast.percs.network import TwoLevelNetwork


app = typer.Typer()
network_app = typer.Typer(help="Link loads and packet simulation of networks between nodes.", no_args_is_help=True)
app.add_typer(network_app, name="network")


_PATTERN = typer.Argument(
    help="halo:4x8x2, all_to_all:64 or ring:64 with ',SIZE'; file of bytes between ranks: square .csv, .csv or "
    ".parquet with columns source,target,size_bytes, .mtx, or .prof file or folder of Open MPI's monitoring; or a "
    "pattern of the SC11 study (2D-64, 4D-64, MChalf-64, ...).",
    show_default=False,
)
_GROUPS = typer.Option(help="Number of groups (supernodes); by default that in the name of a built-in pattern.")
_GATEWAY = typer.Option(help="Rule that assigns links between groups to routers: mod, block or rel.")
_MULTIPLICITY = typer.Option(help="Number of parallel links between two groups.")
_TILES = typer.Option(help="Number of instances of a matrix, on separate ranks.")
_NETWORK = typer.Option(
    help="fat_tree:LEVELS,PORTS,UP[,PLANES] or dragonfly:GROUPS,ROUTERS,HOSTS,GLOBAL, with @GBIT_S; topology.conf of "
    "Slurm; output of ibnetdiscover; or a YAML file of a two-level direct network. By default a non-blocking fat tree, "
    "and PERCS for patterns of the SC11 study and with --groups.",
    show_default=False,
)
_HOSTS = typer.Option(
    help="Hosts of the job in the order of the launcher: a host file of Open MPI, MPICH or PBS, one name per line, "
    "topology.conf of Slurm, or a node list such as node[01-08].",
    show_default=False,
)
_GBIT_S = typer.Option(help="Rate of a port in Gbit/s, if the network has none.", show_default=False)
_OVERSUBSCRIPTION = typer.Option(
    help="For topology.conf: rate of the hosts below a switch, divided by that of its links upwards."
)


_RANKS = typer.Option(help="Ranks of a node; by default 8, and 32 on PERCS.", show_default=False)
_MOST_LINKS_SHOWN = 10


def _is_switched(pattern: str, network: str | None, groups: int | None) -> bool:
    """Return whether a command is about a network of switches, not a two-level direct network."""
    from fabricast.inputs.files import exists
    from fabricast.networks.descriptions import is_description
    from fabricast.networks.patterns import is_pattern
    from fabricast.percs.cases import WORKLOADS

    if network is not None:
        return is_description(network)
    is_file = bool(Path(pattern).suffix) or exists(pattern)
    return is_pattern(pattern) or (groups is None and pattern not in WORKLOADS and is_file)


def _refuse_options(**used: object) -> None:
    """Raise an error if an option is used that belongs to the other kind of network."""
    from fabricast.core.errors import InputError

    for name, value in used.items():
        if value:
            raise InputError("is not an option of this kind of network", argument=name)


def _refuse_two_level(groups: int | None, gateway: str, multiplicity: int, tiles: int, mapping: str = "DEF") -> None:
    """Raise an error if an option of two-level direct networks is used for a network of switches."""
    _refuse_options(
        mapping=mapping != "DEF",
        groups=groups,
        gateway=gateway != "mod",
        tiles=tiles != 1,
        multiplicity=multiplicity != 1,
    )


def _print_switched(lines: Iterator[str], assumptions: Sequence[str]) -> None:
    for line in lines:
        typer.echo(line)
    for text in assumptions:
        typer.echo(f"assumed: {text}")


def _network(
    pattern: str, groups: int | None, gateway: str, multiplicity: int, file: str | None, ranks: int | None, tiles: int
) -> TwoLevelNetwork:
    from fabricast.core.errors import InputError
    from fabricast.networks.patterns import is_pattern
    from fabricast.percs.cases import WORKLOADS
    from fabricast.percs.network_files import load_network

    if is_pattern(pattern) and file is not None and not Path(file).exists():
        from fabricast.networks.descriptions import read_network

        # Its error is that of a network of switches.
        read_network(file)
    if is_pattern(pattern):
        text = f"is '{pattern}', a pattern for networks of switches; a two-level network has {', '.join(WORKLOADS)}"
        if file is not None:
            needs = f"expected topology.conf of Slurm or output of ibnetdiscover for the pattern '{pattern}'"
            raise InputError(f"describes no network of switches, {needs}", path=file)
        raise InputError(f"{text}, or a matrix of bytes between ranks", argument="pattern")
    if groups is not None:
        check_range("--groups", groups, 1, 65536)
    check_range("--multiplicity", multiplicity, 1, 65536)
    check_range("--tiles", tiles, 1, 100_000)
    if ranks is not None:
        check_range("--ranks-per-node", ranks, 1, 65536)
    return load_network(
        pattern,
        groups=groups,
        gateway=gateway,
        multiplicity=multiplicity,
        file=None if file is None else Path(file),
        ranks_per_node=ranks,
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
    network: Annotated[str | None, _NETWORK] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    seed: Annotated[int, typer.Option(help="Seed of random mappings.")] = 1,
    hosts: Annotated[str | None, _HOSTS] = None,
    routing: Annotated[str, typer.Option(help="Of a network of switches: static, adaptive or indirect.")] = "static",
    gbit_s: Annotated[float | None, _GBIT_S] = None,
    oversubscription: Annotated[float, _OVERSUBSCRIPTION] = 1.0,
) -> None:
    """Print the link loads of a mapped pattern; on two-level networks for direct and indirect routing."""
    if _is_switched(pattern, network, groups):
        _refuse_two_level(groups, gateway, multiplicity, tiles, mapping)
        from fabricast.api.networks import network_loads as loads_of
        from fabricast.cli.networks_text import link_lines

        table = loads_of(
            pattern,
            network=network,
            hosts=hosts,
            ranks_per_node=8 if ranks_per_node is None else ranks_per_node,
            routing=routing,
            gbit_s=gbit_s,
            oversubscription=oversubscription,
        )
        _print_switched(link_lines(table, pattern, routing, _MOST_LINKS_SHOWN), table.attrs["assumptions"])
        return
    _refuse_options(hosts=hosts, routing=routing != "static", gbit_s=gbit_s, oversubscription=oversubscription != 1)
    from fabricast.cli.percs_text import loads_lines

    check_seed(seed)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    _print(loads_lines(pattern, mapping, machine, seed, tiles=tiles), machine, assumed=network is None)


@network_app.command(
    "simulate",
    epilog="Examples: fabricast network simulate halo:8x8x8 --network fat_tree:2,16,4@200 | "
    "fabricast network simulate 4D-64 --mapping RNM --packet 256KiB",
)
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
    network: Annotated[str | None, _NETWORK] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    seed: Annotated[int, typer.Option(help="Seed of random mappings and routes.")] = 1,
    hosts: Annotated[str | None, _HOSTS] = None,
    gbit_s: Annotated[float | None, _GBIT_S] = None,
    oversubscription: Annotated[float, _OVERSUBSCRIPTION] = 1.0,
) -> None:
    """Simulate a mapped pattern packet by packet and compare it with link loads."""
    from fabricast.core.units import parse_bytes

    check_seed(seed)
    check_range("--window", window, 1, 1 << 20)
    if _is_switched(pattern, network, groups):
        _refuse_two_level(groups, gateway, multiplicity, tiles, mapping)
        _refuse_options(routing=routing not in ("direct", "static"))
        from fabricast.api.networks import simulate_network
        from fabricast.cli.networks_text import packet_lines

        found = simulate_network(
            pattern,
            network=network,
            hosts=hosts,
            ranks_per_node=8 if ranks_per_node is None else ranks_per_node,
            packet=packet,
            window=window,
            gbit_s=gbit_s,
            oversubscription=oversubscription,
        )
        _print_switched(packet_lines(found), found.assumptions)
        return
    _refuse_options(hosts=hosts, gbit_s=gbit_s, oversubscription=oversubscription != 1)
    from fabricast.cli.percs_text import simulate_lines

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
    "map",
    epilog="Examples: fabricast map halo:8x8x8 --network fat_tree:2,36,12 | "
    "fabricast map matrix.csv --network ibnetdiscover.txt --hosts hosts.txt -o best | fabricast map 4D-64",
)
def map_pattern(
    pattern: Annotated[str, _PATTERN],
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[str | None, _NETWORK] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    proposals: Annotated[
        int | None,
        typer.Option(help="Number of swaps to try; by default 200,000, and 4,000,000 on PERCS.", show_default=False),
    ] = None,
    hosts: Annotated[str | None, _HOSTS] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Each node holds a block of the grid of a halo exchange.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Base name of the .rankfile (Open MPI) and .hosts (SLURM, arbitrary) files."
        ),
    ] = None,
    gbit_s: Annotated[float | None, _GBIT_S] = None,
    oversubscription: Annotated[float, _OVERSUBSCRIPTION] = 1.0,
) -> None:
    """Search for an order of hosts in which a pattern has no hot links; on PERCS, simulate it, too."""
    if proposals is not None:
        check_range("--proposals", proposals, 1000, 1e10)
    check_seed(seed)
    if _is_switched(pattern, network, groups):
        _refuse_two_level(groups, gateway, multiplicity, tiles)
        from fabricast.api.networks import map_ranks
        from fabricast.cli.networks_text import mapping_lines
        from fabricast.runtime.jobs import progress_of

        count = 200_000 if proposals is None else proposals
        with progress_of("searching an order", count) as advance:
            found = map_ranks(
                pattern,
                network=network,
                hosts=hosts,
                ranks_per_node=8 if ranks_per_node is None else ranks_per_node,
                blocks=blocks,
                gbit_s=gbit_s,
                oversubscription=oversubscription,
                proposals=count,
                seed=seed,
                progress=advance,
            )
        _print_switched(mapping_lines(found, is_written=output is not None), found.assumptions)
        for path in found.write(output) if output is not None else ():
            typer.echo(f"written: {path}")
        return
    _refuse_options(gbit_s=gbit_s, oversubscription=oversubscription != 1, blocks=blocks)
    from fabricast.api.percs import map_tasks
    from fabricast.cli.percs_text import map_lines
    from fabricast.core.errors import InputError
    from fabricast.networks.launcher_files import read_hosts
    from fabricast.runtime.jobs import progress_of

    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    if output is not None and hosts is None:
        raise InputError("--output requires host names; specify --hosts FILE")
    names = None if hosts is None else read_hosts(hosts, ranks_per_node=machine.cores_per_router)
    if names is not None and len(names) != machine.routers:
        raise InputError(
            f"{len(names):,} hosts are named, expected one for each of the {machine.routers:,} routers of the network, "
            "in their order"
        )
    tried = 4_000_000 if proposals is None else proposals
    with progress_of("searching a mapping", tried) as advance:
        of_tasks = map_tasks(
            pattern,
            groups=groups,
            gateway=gateway,
            multiplicity=multiplicity,
            network=network,
            tiles=tiles,
            ranks_per_node=ranks_per_node,
            proposals=tried,
            seed=seed,
            progress=advance,
        )
    _print(map_lines(of_tasks), machine, assumed=network is None)
    for path in of_tasks.write(output, names) if output is not None and names is not None else ():
        typer.echo(f"  written: {path}")
