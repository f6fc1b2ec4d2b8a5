"""Arguments of the port model: links in the order in which packets use them, and working memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.links import LAST, LinkNames
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.models.evaluation import piece_payload
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.engines.kernels.links import Links
    from fabricast.pcie.engines.kernels.ports import Ports


#: Maximum number of sets of copies, and of their rates, that are kept.
_MOST_SETS, _MOST_RATES = 1 << 12, 1 << 21


def link_order(names: LinkNames, links: int, tree: PcieTree) -> NDArray[np.int64]:
    """Return the numbers of links in the order in which packets use them.

    Upstream links come first, then limits that are not links of the tree, then downstream links. The links from host
    memory and the limits of memory come last: memory answers each reader separately, so a slow reader does not block
    the others there.
    """
    others = sorted(range(names.tree_links, links), key=lambda link: (names.ranks.get(link, 1), link))
    upstream = [link for link in range(tree.routes.upstream_links) if not _leaves_memory(tree, link)]
    memory = [link for link in range(tree.routes.upstream_links) if _leaves_memory(tree, link)]
    downstream = range(tree.routes.upstream_links, names.tree_links)
    middle = [link for link in others if names.ranks.get(link, 1) < LAST]
    last = [link for link in others if names.ranks.get(link, 1) == LAST]
    return np.array([*upstream, *middle, *downstream, *memory, *last], dtype=np.int64)


def _leaves_memory(tree: PcieTree, link: int) -> bool:
    """Return whether an upstream link starts at host memory."""
    return tree.is_endpoint(source := tree.link_names[link][0]) and tree.vertex(source).host_memory


def reordered(links: Links, order: NDArray[np.int64]) -> Links:
    """Return links with new numbers in the order of `order`; the links of each route ascend."""
    new = np.empty(order.size, dtype=np.int64)
    new[order] = np.arange(order.size)
    route = np.repeat(np.arange(links.offset.size - 1), np.diff(links.offset))
    link = new[links.link]
    needs = links.needs[order]
    return links._replace(
        link=link[np.lexsort((link, route))],
        opposite=new[links.opposite[order]],
        capacity=links.capacity[order],
        needs=np.where(needs >= 0, new[needs], -1),
    )


def new_ports(tree: PcieTree, links: Links, order: NDArray[np.int64], rates: Rates) -> Ports:
    """Return the arguments of the port model for some flows.

    Shapes: order (links,).
    """
    from fabricast.pcie.engines.kernels.ports import Ports
    from fabricast.pcie.models.kernels.known_sets import new_known_sets
    from fabricast.pcie.models.kernels.models import Network
    from fabricast.pcie.models.kernels.working_memory import new_memory

    flows, count = links.offset.size - 1, links.capacity.size
    behind = np.zeros(count, dtype=np.bool_)
    of_tree = order < tree.routes.capacity.size
    behind[of_tree] = tree.routes.behind_root_complex[order[of_tree]]
    network = Network(
        endpoints=tree.routes.endpoints,
        route_offset=links.offset,
        route_link=links.link,
        crossing_pair=np.zeros(flows, dtype=np.bool_),
        capacity=links.capacity,
        leaves_root_complex=np.zeros(count, dtype=np.bool_),
        behind_root_complex=behind,
        # Links from host memory are not among the first links.
        upstream_links=int(np.argmax(order >= tree.routes.upstream_links)),
    )
    memory = new_memory(max(flows, count), count, count)
    memory.copies.pair[:] = np.arange(memory.copies.pair.size)
    memory.copies.crossing[:] = 0
    memory.copies.longest[:] = 0
    return Ports(
        network,
        rates.one_way_bytes_per_s,
        piece_payload(rates.tau, rates.crossing_cost),
        rates.crossing_cost,
        memory,
        np.zeros(count),
        np.arange(flows),
        new_known_sets(min(_MOST_SETS, max(_MOST_RATES // flows, 2)), flows),
    )


def no_ports(tree: PcieTree) -> Ports:
    """Return arguments that select max-min fair rates."""
    from fabricast.pcie.engines.kernels.ports import Ports
    from fabricast.pcie.models.kernels.known_sets import new_known_sets
    from fabricast.pcie.models.kernels.models import Network
    from fabricast.pcie.models.kernels.working_memory import new_memory

    empty, flags, floats = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_), np.zeros(0)
    network = Network(tree.routes.endpoints, empty, empty, flags, floats, flags, flags, 0)
    sets = new_known_sets(1, 0)
    return Ports(network, 0.0, 1.0, 1.0, new_memory(0, 0, 0), floats, empty, sets)
