"""Runs of many graphs on the links of one tree: no limits but links, one deterministic program."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fabricast.pcie.engines.kernels.engines import Explanation, Program, run_program
from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.engines.kernels.ports import Ports
from fabricast.pcie.models.kernels.bottlenecks import Waits, cause_of
from fabricast.pcie.models.kernels.models import Network
from fabricast.pcie.models.kernels.working_memory import new_memory
from fabricast.runtime.compilation import njit

#: Offset of each graph; source, target, engine, barriers, size in bytes and start in s of each copy.
Graphs = namedtuple("Graphs", "offset source target engine barrier size start_s")


#: Routes of all pairs, link capacities in bytes/s, the rules of the program, and the parameters of ports.
Rules = namedtuple(
    "Rules",
    "endpoints route_offset route_link capacity reverse behind_root_complex upstream_links duplex_cost bytes_per_s "
    "piece_payload piece_cost switch_share overlaps waits_at_source",
)


@njit
def run_graphs(first_graph, last_graph, graphs, rules, sets, end_s, bottleneck, caused_by):
    """Run consecutive graphs; fill the completion times and, unless `bottleneck` is empty, the explanation.

    Known sets of copies belong to the rules: the kind of a copy is the number of its pair of endpoints.
    """
    count = rules.capacity.size
    widest = 1
    for graph in range(first_graph, last_graph):
        widest = max(widest, graphs.offset[graph + 1] - graphs.offset[graph])
    explained = bottleneck.size > 0
    memory = new_memory(max(widest, count), count, count)
    for copy in range(memory.copies.pair.size):
        memory.copies.pair[copy] = copy
        memory.copies.crossing[copy] = 0
        memory.copies.longest[copy] = 0
    needs = np.full((count, 2), -1, dtype=np.int64)
    load = np.zeros(count)
    none = np.zeros(count, dtype=np.bool_)
    waits = Waits(
        np.zeros((widest if explained else 0, count)),
        np.zeros((widest if explained else 0, count)),
        np.zeros((widest if explained else 0, count), dtype=np.int64),
    )
    for graph in range(first_graph, last_graph):
        first, last = graphs.offset[graph], graphs.offset[graph + 1]
        flows = last - first
        if flows == 0:
            continue
        offset = np.zeros(flows + 1, dtype=np.int64)
        for flow in range(flows):
            pair = graphs.source[first + flow] * rules.endpoints + graphs.target[first + flow]
            offset[flow + 1] = offset[flow] + rules.route_offset[pair + 1] - rules.route_offset[pair]
        link = np.empty(offset[flows], dtype=np.int64)
        alone = np.empty(flows)
        kind = np.empty(flows, dtype=np.int64)
        queue = np.empty(flows if explained else 0, dtype=np.int64)
        for flow in range(flows):
            pair = graphs.source[first + flow] * rules.endpoints + graphs.target[first + flow]
            begin = rules.route_offset[pair]
            kind[flow] = pair
            alone[flow] = np.inf
            for hop in range(rules.route_offset[pair + 1] - begin):
                link[offset[flow] + hop] = rules.route_link[begin + hop]
                alone[flow] = min(alone[flow], rules.capacity[rules.route_link[begin + hop]])
            if explained:
                queue[flow] = link[offset[flow]] if rules.waits_at_source else link[offset[flow + 1] - 1]
                for number in range(count):
                    waits.limited_s[flow, number] = 0.0
                    waits.blocked_s[flow, number] = 0.0
        occupancy = np.ones(flows)
        if rules.overlaps:
            for flow in range(flows):
                occupancy[flow] = min(max(alone[flow] / rules.bytes_per_s, 0.05), 1.0)
        links = Links(offset, link, rules.reverse, rules.capacity, needs, rules.duplex_cost)
        program = Program(
            graphs.engine[first:last],
            graphs.barrier[first:last],
            graphs.size[first:last],
            graphs.start_s[first:last],
            1,
            occupancy,
            False,
            rules.switch_share,
            False,
        )
        network = Network(
            rules.endpoints, offset, link, none, rules.capacity, none, rules.behind_root_complex, rules.upstream_links
        )
        ports = Ports(network, rules.bytes_per_s, rules.piece_payload, rules.piece_cost, memory, load, kind, sets)
        ends = run_program(links, program, rules.endpoints, alone, 0, ports, Explanation(waits, queue))
        for flow in range(flows):
            end_s[first + flow] = ends[flow]
            if explained:
                longest = 0
                for number in range(count):
                    if waits.limited_s[flow, number] > waits.limited_s[flow, longest]:
                        longest = number
                bottleneck[first + flow] = longest
                caused_by[first + flow] = cause_of(flow, longest, waits)
