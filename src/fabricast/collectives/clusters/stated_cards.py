"""Network cards of a node as the active ports of files, or a user, state them."""

from __future__ import annotations

from collections import Counter

from fabricast.collectives.clusters.cluster import cards_of
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
    of_host: dict[tuple[str, ...], Counter[float]] = {}
    for fact in port_rates(facts):
        of_host.setdefault((fact.place.path, fact.host), Counter())[fact.value] += 1
    found = Counter(max(rates.items(), key=lambda item: (item[1], item[0])) for rates in of_host.values())
    if not found or 2 * max(found.values()) <= found.total():
        return None
    (rate, count), _ = found.most_common(1)[0]
    return f"{count}x{rate:g}"


def cards_of_gpus(nic: str, gpus: int, listed: int | None) -> str:
    """Return the cards of a node that serve its GPUs: at most those that a log lists, and one for each GPU.

    Several cards of a GPU count as one of their rate; other ports, of the same rate, are for storage.
    """
    count, rate = cards_of(nic)
    count = count if listed is None else min(count, listed)
    if count <= gpus or not gpus:
        return f"{count}x{rate:g}"
    return f"{gpus}x{rate * (count // gpus if count % gpus == 0 else 1):g}"
