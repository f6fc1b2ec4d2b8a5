"""Reader of ``fi_info``: providers by which libfabric can send messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROVIDER = re.compile(r"^provider: ([\w;]{2,60})\s*$")
_DOMAIN = re.compile(r"^\s{2,8}domain: (\S{1,80})")
#: Command that lists one provider.
_ASKED = re.compile(r"fi_info\b[^\n]{0,200}\s-(?:p|-provider)\b|FI_PROVIDER=")
#: Providers of network cards; others send over TCP or within a host.
_OF_CARDS = re.compile(
    r"(?:efa|verbs|mlx|psm\d?|opx|cxi|usnic|gni|bgq|ucx|netdir|lpp|hook_\w{2,20}|off_coll)(?:;ofi_\w{2,8})*"
)
_MOST_LISTED = 8
_REMEDY = (
    "where the hosts have cards for RDMA: install the libfabric of their vendor (AWS: the EFA installer), pass "
    "/dev/infiniband to the container, and check 'ibv_devinfo'"
)


def _is_list(text: Text) -> bool:
    """Return whether providers are listed; one that sends over TCP is listed by intention ("fi_info -p tcp")."""
    if "provider: " not in text.raw:
        return False
    names = {match[1] for line in text.clean_lines if (match := _PROVIDER.match(line)) is not None}
    layers = {name.partition(";")[0] for name in names}
    is_asked = _ASKED.search(text.raw) is not None
    return (len(layers) > 1 and "tcp" in layers and not is_asked) or any(_OF_CARDS.fullmatch(name) for name in names)


def _read(text: Text) -> Iterator[Reading]:
    domains: dict[str, dict[str, None]] = {}
    name, first = "", 0
    for number, line in text.lines():
        if (match := _PROVIDER.match(line)) is not None:
            name, first = match[1], first or number
            domains.setdefault(name, {})
        elif name and (match := _DOMAIN.match(line)) is not None:
            domains[name][match[1]] = None
    of_cards = {one: list(found) for one, found in domains.items() if _OF_CARDS.fullmatch(one)}
    cards = [f"{one} ({listed(found, 4)})" if found else one for one, found in of_cards.items()]
    if cards:
        words = f"libfabric can send by {listed(cards, _MOST_LISTED)}"
        yield Reading([text.fact(Quantity.NOTE, words, first, "fi_info")])
        return
    words = f"libfabric can send between hosts over TCP only: it lists {', '.join(domains)} and no provider of a card"
    yield Reading([text.fact(Quantity.CAUSE, words, first, "fi_info", subject=("no_card_transport", _REMEDY))])


FORMAT = Format(
    "fi_info",
    Content.STATES,
    "fi_info > fi.txt",
    "provider: efa",
    _is_list,
    _read,
    "fi_info.txt",
    versions="providers and their cards, or that libfabric has only TCP",
    is_per_host=True,
)
