"""Who shares a bottleneck: the compiled listing against plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fabricast.pcie.bottlenecks import sharers
from fabricast.pcie.graphs import CongestionGraphs
from fabricast.pcie.regular_tree import regular_tree

TREE = regular_tree("storm8", (2, 2, 2))
COPIES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 6), st.floats(0, 2), st.floats(0.1, 3)), min_size=1, max_size=12
)  # fmt: skip


def plain(graphs, bottleneck, end_s):
    texts = []
    for graph in range(len(graphs)):
        rows = range(graphs.offset[graph], graphs.offset[graph + 1])
        for one in rows:
            found = []
            for other in rows:
                route = TREE.route(*(TREE.endpoint_names[e[other]] for e in (graphs.source, graphs.target)))
                together = graphs.start_s[one] < end_s[other] and graphs.start_s[other] < end_s[one]
                if other != one and together and bottleneck[one] >= 0 and bottleneck[one] in route:
                    found.append(f"{graphs.source[other]}>{graphs.target[other]}")
            texts.append(" ".join(found))
    return texts


@given(st.lists(COPIES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_sharers_equal_plain_loops(drawn, random):
    rows = [row for graph in drawn for row in graph]
    source = np.array([s for s, *_ in rows])
    target = (source + 1 + np.array([t for _, t, *_ in rows])) % 8
    start = np.array([row[2] for row in rows])
    graphs = CongestionGraphs(
        names=tuple(map(str, range(len(drawn)))), families=("user",) * len(drawn),
        offset=np.concatenate([[0], np.cumsum([len(graph) for graph in drawn])]).astype(np.int64),
        source=source, target=target, size_bytes=np.ones(len(rows)), start_s=start,
    )  # fmt: skip
    end_s = start + np.array([row[3] for row in rows])
    bottleneck = np.array([random.randrange(-1, len(TREE.link_names)) for _ in rows])
    for number in range(len(rows)):
        if random.random() < 0.7:
            bottleneck[number] = random.choice(TREE.route(str(source[number]), str(target[number])))
    assert sharers(TREE, graphs, bottleneck, end_s).tolist() == plain(graphs, bottleneck, end_s)
