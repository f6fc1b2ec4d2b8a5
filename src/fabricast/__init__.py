"""Performance models of copies, collectives, messages and networks between GPUs and nodes.

Machines      load_machine, load_topology, load_cluster, calibrate, validate_machine, diagnose
Copies        predict, predict_cluster, simulate, fastest_schedule
Graphs        graph, random_graphs, read_graphs, all_to_all, collective_step, halo_exchange, host_copies,
              network_card_copies
Collectives   collective, cluster_collective, reference, diagnose_collective
Networks      map_ranks, network_loads, simulate_network, link_loads, map_tasks
Messages      fit_max_rate, what_if, compare_breakdown, select_method
Finished runs open_run

Results are data frames with units in the names of columns, and warnings in ``attrs``; wrong input raises `InputError`.

>>> import fabricast as fc
>>> tree = fc.load_topology("storm8")
>>> times = fc.predict(tree, [("0", "1"), ("2", "1")], size="300 MiB")
>>> times["bottleneck"].tolist(), times["limited_by"].tolist()
(['endpoint 1 receives', 'endpoint 1 receives'], ['2>1', '0>1'])
"""

from typing import Any as _Any

import lazy_loader

__version__ = "0.1.0"
# Without __all__, help(fabricast) is this page, not that of all pandas methods of the results.
_load, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> _Any:
    """Load a public name when it is first used; an error lists similar names."""
    if name not in _names:
        from fabricast.core.errors import near_names

        raise AttributeError(f"module 'fabricast' has no attribute '{name}'{near_names(name, _names)}")
    return _load(name)
