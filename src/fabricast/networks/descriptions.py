"""Networks from words, from topology files of Slurm, and from the output of ibnetdiscover."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fabricast.core.errors import InputError
from fabricast.inputs.files import exists, read_text
from fabricast.inputs.host_names import is_host_name
from fabricast.inputs.log_lines import clean_text
from fabricast.networks.generators import dragonfly, fat_tree
from fabricast.networks.launcher_files import is_slurm_topology, slurm_switches
from fabricast.networks.network import Cable, SwitchNetwork, network_of_cables

#: Rate of one port in bytes/s without another statement: 200 Gbit/s (HDR InfiniBand). [assumed]
DEFAULT_BYTES_PER_S = 25e9
_WORDS = re.compile(r"(fat_tree|dragonfly):([0-9,]+)(?:@([0-9]{1,9}(?:\.[0-9]{1,9})?))?")
#: Rates of a lane of InfiniBand in bits/s, without the line code.
_LANES = {
    "SDR": 2e9,
    "DDR": 4e9,
    "QDR": 8e9,
    "FDR10": 10e9,
    "FDR": 13.64e9,
    "EDR": 25e9,
    "HDR": 50e9,
    "NDR": 100e9,
    "XDR": 200e9,
}
_SWITCH = re.compile(r'^Switch\s+\d+\s+"S-([0-9a-fA-F]+)"\s*#\s*"([^"]*)"', re.MULTILINE)
_CARD = re.compile(r'^(?:Ca|Rt)\s+\d+\s+"[HR]-([0-9a-fA-F]+)"')
_PORT = re.compile(
    r'^\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"([SHR])-([0-9a-fA-F]+)"\[(\d+)\](?:\([0-9a-fA-F]+\))?\s*'
    r'(?:\[ext \d+\]\s*)?#\s*"([^"]*)".*?(?:\s(\d+)x([A-Z0-9]+)(?:\s+[a-z]=\d+)*)?\s*$'
)
#: Line of `ibnetdiscover -p`: both ends of a cable, with their descriptions.
_CABLE = re.compile(
    r"^(CA|SW|RT)\s+\d+\s+(\d+)\s+0x([0-9a-fA-F]+)\s+(\d+)x\s+(\S+)\s+-\s+(CA|SW|RT)\s+\d+\s+(\d+)\s+0x([0-9a-fA-F]+)\s+"
    r"\(\s*'(.*?)'\s+-\s+'(.*?)'\s*\)",
    re.MULTILINE,
)


def is_description(network: str) -> bool:
    """Return whether a text or file describes a network of switches, not a two-level direct one.

    >>> is_description("fat_tree:2,36,18"), is_description("no_such_file.yaml")
    (True, False)
    """
    path = Path(network)
    if _is_words(network):
        return True
    if path.suffix.lower() in (".yaml", ".yml") or not path.is_file():
        return False
    text = clean_text(read_text(path, strict=True))
    return is_slurm_topology(text) or _is_discovery(text)


#: Descriptions of networks of switches.
_EXPECTED = (
    "fat_tree:LEVELS,PORTS,UP, dragonfly:GROUPS,ROUTERS,HOSTS,GLOBAL, a topology.conf of Slurm or the output of "
    "ibnetdiscover"
)


def is_slurm_file(network: str) -> bool:
    """Return whether a network is a file of Slurm, which does not count cables."""
    path = Path(network)
    return not _is_words(network) and path.is_file() and is_slurm_topology(clean_text(read_text(path)))


def _is_words(network: str) -> bool:
    return network.partition(":")[0] in ("fat_tree", "dragonfly") or (":" in network and not exists(network))


def _is_discovery(text: str) -> bool:
    return _SWITCH.search(text) is not None or _CABLE.search(text) is not None


def switch_network(network: str, *, bytes_per_s: float | None = None, oversubscription: float = 1.0) -> SwitchNetwork:
    """Return a network from words such as ``fat_tree:2,36,18``, a file of Slurm or the output of ibnetdiscover."""
    rate = DEFAULT_BYTES_PER_S if bytes_per_s is None else bytes_per_s
    if _is_words(network):
        return _of_words(network, rate, is_assumed=bytes_per_s is None)
    path, text = Path(network), read_network(network)
    if is_slurm_topology(text):
        return _of_slurm(path, text, rate, oversubscription, is_assumed=bytes_per_s is None)
    if _is_discovery(text):
        return _of_discovery(path, text)
    raise InputError(f"describes no network of switches, expected {_EXPECTED}", path=path)


def read_network(network: str) -> str:
    """Return the text of a file that describes a network; an error about a word names the known ones."""
    path = Path(network)
    if not path.suffix and not exists(network):
        raise InputError(f"is '{network}', which is no file, expected {_EXPECTED}", argument="network")
    return clean_text(read_text(path, strict=True))


def default_network(hosts: int, bytes_per_s: float | None = None) -> SwitchNetwork:
    """Return the smallest non-blocking fat tree of switches with 40 ports for some hosts."""
    rate = DEFAULT_BYTES_PER_S if bytes_per_s is None else bytes_per_s
    for levels in (1, 2, 3):
        if hosts <= (40 if levels == 1 else 2 * 20**levels):
            words = f"fat_tree:{levels},40,20"
            return _of_words(words, rate, is_assumed=bytes_per_s is None)
    raise InputError(f"has {hosts:,} hosts, expected at most 16,000 without a network", argument="network")


def _of_words(text: str, rate: float, *, is_assumed: bool) -> SwitchNetwork:
    match = _WORDS.fullmatch(text)
    expected = "expected fat_tree:LEVELS,PORTS,UP[,PLANES] or dragonfly:GROUPS,ROUTERS,HOSTS,GLOBAL, and @GBIT_S"
    if match is None:
        raise InputError(f"is '{text}', {expected}", argument="network")
    words = match[2].split(",")
    numbers = [int(word) for word in words] if all(0 < len(word) < 7 for word in words) else []
    if match[3]:
        rate, is_assumed = float(match[3]) * 1e9 / 8, False
    if not 1e6 <= rate <= 1e14:
        raise InputError(f"is '{text}', expected a rate of 0.01 to 100,000 Gbit/s", argument="network")
    if match[1] == "fat_tree" and len(numbers) in (3, 4):
        network = fat_tree(*numbers[:3], bytes_per_s=rate, planes=numbers[3] if len(numbers) == 4 else 1)
    elif match[1] == "dragonfly" and len(numbers) == 4:
        network = dragonfly(*numbers, bytes_per_s=rate)
    else:
        raise InputError(f"is '{text}', {expected}", argument="network")
    has_planes = match[1] == "fat_tree" and len(numbers) == 4 and numbers[3] > 1
    ports = "each port of a host" if has_planes else "the only port of each host"
    return _with(network, _rate_assumed(rate, ports) if is_assumed else ())


def _rate_assumed(rate: float, ports: str) -> tuple[str, ...]:
    return (f"{ports} has {rate * 8e-9:g} Gbit/s; state yours with @GBIT_S after the words, or --gbit-s",)


def _with(network: SwitchNetwork, assumptions: tuple[str, ...]) -> SwitchNetwork:
    from dataclasses import replace

    return replace(network, assumptions=(*network.assumptions, *assumptions))


def _of_slurm(path: Path, text: str, rate: float, oversubscription: float, *, is_assumed: bool) -> SwitchNetwork:
    """Return the tree of switches of Slurm, which does not count the cables between them."""
    if not 1 <= oversubscription <= 1000:
        raise InputError(f"is {oversubscription:g}, expected 1 to 1,000", argument="oversubscription")
    switches = slurm_switches(text, path)
    names = list(switches)
    number = {name: place for place, name in enumerate(names)}
    hosts = [host for one in switches.values() for host in one.nodes]
    place = {host: number_of for number_of, host in enumerate(hosts)}
    below = {name: len(one.nodes) for name, one in switches.items()}
    # Children follow their parents, so that the sums of subtrees are complete from the end.
    for name in reversed(names):
        below[name] += sum(below[child] for child in switches[name].switches)
    cables = [Cable(number[name], -1 - place[host], rate) for name, one in switches.items() for host in one.nodes]
    cables += [
        Cable(number[name], number[child], max(below[child], 1) * rate / oversubscription)
        for name, one in switches.items()
        for child in one.switches
    ]
    title = f"{path.name}: {len(names)} switches, {len(hosts):,} hosts"
    share = (
        "the rate of all hosts below"
        if oversubscription == 1
        else f"{1 / oversubscription:.3g} of the rate of all hosts below"
    )
    unused = ("LinkSpeed has no unit in Slurm and is not used",) if "linkspeed" in text.lower() else ()
    # A stated value needs no advice.
    advice = "; state yours with --oversubscription" if oversubscription == 1 else ""
    assumed = (
        f"Slurm counts no cables: the links above a switch have {share}{advice}",
        *unused,
        *(_rate_assumed(rate, "the only port of each host") if is_assumed else ()),
    )
    return network_of_cables(title, hosts, names, cables, assumed)


def _of_discovery(path: Path, text: str) -> SwitchNetwork:
    """Return the switches and hosts of ibnetdiscover; a host is the first word of the description of its cards."""
    switches: dict[str, str] = {}
    cables: dict[frozenset[tuple[str, int]], tuple[str, str, str, float]] = {}
    described: dict[str, str] = {}
    peers: dict[tuple[str, int], frozenset[tuple[str, int]]] = {}
    for cable in _cables_of(path, text):
        one, other = cable.first, cable.second
        ends = frozenset(((one.guid, one.port), (other.guid, other.port)))
        for end in ends:
            if one.kind == other.kind == "S" and peers.setdefault(end, ends) != ends:
                raise InputError(f"port {end[1]} of switch {end[0]} has two cables, expected one", path=path)
        if cable.is_within_switch:
            continue
        for end_of in (one, other):
            if end_of.kind == "S":
                switches.setdefault(end_of.guid, end_of.name or end_of.guid)
            else:
                described.setdefault(end_of.guid, end_of.name)
        if ends not in cables and (one.kind, other.kind) != ("H", "H"):
            first, second = (one.guid, other.guid) if one.kind == "S" else (other.guid, one.guid)
            cables[ends] = (first, second, "S" if one.kind == other.kind else "H", cable.bytes_per_s)
    host_of = {guid: _host_name(guid, name) for guid, name in described.items()}
    hosts = list(dict.fromkeys(host_of[other] for _, other, kind, _ in cables.values() if kind == "H"))
    number = {guid: place for place, guid in enumerate(switches)}
    place = {host: number_of for number_of, host in enumerate(hosts)}
    if not switches or not hosts:
        raise InputError("has no switch with a host, expected the output of ibnetdiscover", path=path)
    # The cards of a host in the order of their names are its rails.
    ordered = sorted(cables.values(), key=lambda cable: described.get(cable[1], "") if cable[2] == "H" else "")
    built = [
        Cable(number[first], number[second] if kind == "S" else -1 - place[host_of[second]], rate)
        for first, second, kind, rate in ordered
    ]
    unique = _unique(list(switches.values()))
    title = f"{path.name}: {len(unique)} switches, {len(hosts):,} hosts, {len(built):,} cables"
    try:
        return network_of_cables(title, hosts, unique, built)
    except InputError as error:
        raise InputError(error.reason, path=path) from error


def _host_name(guid: str, description: str) -> str:
    """Return the host of a card: the first word of its description, or its identifier if it has the default one.

    >>> _host_name("0c42", "node01 mlx5_0"), _host_name("0c42", "MT4123 ConnectX6 Mellanox Technologies")
    ('node01', 'card-0c42')
    """
    name = (description.split() or [""])[0].strip("'\"")
    is_default = "Mellanox Technologies" in description or re.fullmatch(r"MT\d+", name) is not None
    return f"card-{guid}" if is_default or not is_host_name(name) else name


def _unique(names: list[str]) -> list[str]:
    """Return names with a number where switches share one.

    >>> _unique(["a", "b", "a"])
    ['a', 'b', 'a#2']
    """
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique


class CableEnd(NamedTuple):
    """End of a cable: whether it is a switch ('S') or a host ('H'), its identifier, port and description."""

    kind: str
    guid: str
    port: int
    name: str

    @property
    def host(self) -> str:
        """Host of a card; empty for a switch and a card without the name of its host."""
        name = _host_name(self.guid, self.name) if self.kind == "H" else ""
        return "" if name.startswith("card-") else name

    @property
    def words(self) -> str:
        """Name with the port; a card without the name of its host by its identifier."""
        name = self.name if self.kind == "S" or self.host else f"card-{self.guid}"
        return f"{name or self.guid} port {self.port}"


class ListedCable(NamedTuple):
    """Cable in the output of ibnetdiscover."""

    first: CableEnd
    second: CableEnd
    bytes_per_s: float
    line: int

    @property
    def is_within_switch(self) -> bool:
        """Whether an end is the aggregation node of SHARP: a port within a switch, and no host."""
        return any("Aggregation Node" in end.name for end in (self.first, self.second))

    @property
    def words(self) -> str:
        """Both ends with their ports, a host by its card."""
        return f"{self.first.words} - {self.second.words}"


def listed_cables(path: Path | str) -> list[ListedCable]:
    """Return the cables that the output of ibnetdiscover lists, each once."""
    text = clean_text(read_text(Path(path), strict=True))
    cables: dict[frozenset[tuple[str, int]], ListedCable] = {}
    for cable in _cables_of(Path(path), text):
        if cable.is_within_switch:
            continue
        cables.setdefault(frozenset((end.guid, end.port) for end in cable[:2]), cable)
    return list(cables.values())


def _cables_of(path: Path, text: str) -> Iterator[ListedCable]:
    """Yield each cable of each end that the text lists."""
    kind = guid = name = ""
    ports: set[int] = set()
    blocks, named = set[str](), dict[str, str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := _CABLE.match(line)) is not None:
            ends = ["S" if word == "SW" else "H" for word in (found[1], found[6])]
            rate = _rate(path, number, found[4], found[5])
            # The report has the GUID of the port, which differs between the ports of a card.
            first = CableEnd(ends[0], found[3], int(found[2]), found[9])
            yield ListedCable(first, CableEnd(ends[1], found[8], int(found[7]), found[10]), rate, number)
        elif (found := _SWITCH.match(line)) is not None:
            kind, guid, name, ports = "S", found[1].lower(), found[2], set()
            blocks.add(guid)
        elif (found := _CARD.match(line)) is not None:
            # The ports of cards repeat those of switches.
            kind = ""
        elif kind == "S" and (found := _PORT.match(line)) is not None:
            if int(found[1]) in ports:
                raise InputError(
                    f"is port {found[1]} of '{name}' a second time: the line of a switch is missing above",
                    path=path,
                    line=number,
                )
            ports.add(int(found[1]))
            rate = _rate(path, number, found[6] or "4", found[7] or "")
            other = "S" if found[2] == "S" else "H"
            if other == "S":
                named.setdefault(found[3].lower(), found[5])
            first = CableEnd(kind, guid, int(found[1]), name)
            yield ListedCable(first, CableEnd(other, found[3].lower(), int(found[4]), found[5]), rate, number)
    # Blocks of cards only repeat the ports of switches.
    missing = next((one for one in named if one not in blocks), None) if blocks else None
    if missing is not None:
        raise InputError(f"lacks the block of switch {missing} ('{named[missing]}'): the file is cut", path=path)


def _rate(path: Path, line: int, width: str, speed: str) -> float:
    """Return the rate of a port such as 4xHDR in bytes/s."""
    if int(width) not in (1, 2, 4, 8, 12):
        raise InputError(f"width is {width}x, expected 1x, 2x, 4x, 8x or 12x", path=path, line=line)
    if speed not in _LANES:
        raise InputError(f"speed is '{speed}', expected one of {', '.join(_LANES)}", path=path, line=line)
    return int(width) * _LANES[speed] / 8
