"""Performance models of copies, collectives, messages and networks between GPUs and nodes.

Machines      load_machine, load_topology, load_cluster, calibrate, validate_machine, diagnose
Copies        predict, predict_cluster, simulate, graph, all_to_all, halo_exchange, host_copies, fastest_schedule
Collectives   collective, cluster_collective, reference, diagnose_collective
Networks      map_ranks, network_loads, simulate_network, link_loads
Messages      fit_max_rate, what_if, compare_breakdown, select_method
Finished runs open_run

Results are data frames with units in the names of columns, and warnings in ``attrs``; wrong input raises `InputError`.

>>> import fabricast as fc
>>> tree = fc.load_topology("storm8")
>>> times = fc.predict(tree, [("0", "1"), ("2", "1")], size="300 MiB")
>>> times["bottleneck"].tolist(), times["limited_by"].tolist()
(['endpoint 1 receives', 'endpoint 1 receives'], ['2>1', '0>1'])
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
