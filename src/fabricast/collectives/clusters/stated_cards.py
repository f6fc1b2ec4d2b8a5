"""Network cards of a node as the active ports of files, or a user, state them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fabricast.collectives.clusters.cluster import cards_of, merged
from fabricast.core.facts import Fact, Facts, Kind, Quantity


def port_rates(facts: Facts) -> list[Fact]:
    """Return the rates of active ports: those that the user states, or else those of files."""
    every = list(facts.of(Quantity.PORT_RATE))
    return [fact for fact in every if fact.kind is Kind.OPTION] or every


def port_rates_of_files(facts: Facts) -> list[Fact]:
    """Return the rates of active ports that files state."""
    return [fact for fact in facts.of(Quantity.PORT_RATE) if fact.kind is not Kind.OPTION]


def stated_cards(facts: Facts) -> str | None:
    """Return the cards of a node by the active ports of most hosts; None if no kind of node is that of most.

    Slower ports than most of a host may be for storage.
    """
    found = Counter(max(rates.items(), key=lambda item: (item[1], item[0])) for rates in _rates(facts).values())
    if not found or 2 * max(found.values()) <= found.total():
        return None
    (rate, count), _ = found.most_common(1)[0]
    return f"{count}x{rate:g}"


def of_listed_cards(ports: list[Fact], facts: Facts, *, is_chosen: bool = True) -> list[Fact]:
    """Return the ports of the cards that logs of NCCL list for their host; all ports of hosts without a list.

    Without `is_chosen`, logs in which a setting selects the cards do not count.
    """
    used: dict[str, set[str]] = {}
    for run in facts.values(Quantity.NCCL_RUN):
        if is_chosen or "NCCL_IB_HCA" not in run.environment:
            for name, host in run.hosts.items():
                used.setdefault(name, set()).update(host.card_names)
    every = set().union(*used.values())

    def is_listed(fact: Fact) -> bool:
        names = used.get(fact.host, set()) if fact.host else every
        return not names or fact.subject[0].split()[0] in names

    listed = [fact for fact in ports if is_listed(fact)]
    return listed if any(fact.subject[0].split()[0] in every for fact in listed) else ports


def _rates(facts: Facts) -> dict[tuple[str, str], Counter[float]]:
    """Return how many active ports of each rate a host has, by file and host; only those that logs list, if any."""
    of_host: dict[tuple[str, str], Counter[float]] = {}
    for fact in of_listed_cards(port_rates(facts), facts):
        of_host.setdefault((fact.place.path, fact.host), Counter())[fact.value] += 1
    return of_host


def notes_of_cards(facts: Facts, nodes: int, gpus: int) -> Iterator[str]:
    """Yield what the ports of files say about a forecast of equal nodes: more hosts, and hosts with fewer ports.

    A node with fewer fast ports than GPUs that has more ports may have slow ones, or some that are down.
    """
    nic, of_host = stated_cards(facts), _rates(facts)
    if nic is None:
        return
    count, rate = cards_of(nic)
    if nodes == 1 and len(of_host) > 1:
        hosts = len(of_host)
        yield f"the files have the ports of {hosts} hosts, and the forecast is of one node: add nodes {hosts}"
    ports = max(Counter((fact.place.path, fact.host) for fact in facts.of(Quantity.PORT)).values(), default=0)
    if nodes > 1 and count < gpus <= ports:
        yield (
            f"{count} of {ports} ports of a host are active with {rate:g} Gbit/s, others are slower or down: the "
            f"forecast is that of {count} cards; --nic {gpus}x{rate:g} states a node whose ports all work"
        )
    fewer = {host or path: rates[rate] for (path, host), rates in of_host.items() if rates[rate] < count}
    if fewer:
        host, have = min(fewer.items(), key=lambda item: item[1])
        more = f", as {len(fewer) - 1} more hosts have fewer" if len(fewer) > 1 else ""
        yield (
            f"{host} has {have} active ports of {rate:g} Gbit/s, most hosts {count}{more}: the forecast is that of "
            f"{count}, and a ring is as fast as its slowest card; 'fabricast diagnose' names the port"
        )


def cards_of_gpus(nic: str, gpus: int, listed: int | None) -> str:
    """Return the cards of a node that serve its GPUs: at most those that a log lists, and one for each GPU.

    Other ports, of the same rate, are for storage.
    """
    count, rate = cards_of(nic)
    count, rate = merged(count if listed is None else min(count, listed), rate, gpus)
    return f"{min(count, gpus) if gpus else count}x{rate:g}"
