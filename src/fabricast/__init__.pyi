# Public names, in one list: `__init__.py` imports each from its module at the first use.
from .api.breakdown import WhatIf as WhatIf
from .api.breakdown import compare_breakdown as compare_breakdown
from .api.breakdown import what_if as what_if
from .api.cluster_copies import ClusterCopies as ClusterCopies
from .api.cluster_copies import ClusterMachine as ClusterMachine
from .api.cluster_copies import load_cluster as load_cluster
from .api.cluster_copies import predict_cluster as predict_cluster
from .api.clusters import cluster_collective as cluster_collective
from .api.collectives import collective as collective
from .api.collectives import diagnose as diagnose
from .api.collectives import diagnose_collective as diagnose_collective
from .api.gpucentric import select_method as select_method
from .api.graphs import all_to_all as all_to_all
from .api.graphs import collective_step as collective_step
from .api.graphs import graph as graph
from .api.graphs import halo_exchange as halo_exchange
from .api.graphs import host_copies as host_copies
from .api.graphs import network_card_copies as network_card_copies
from .api.graphs import random_graphs as random_graphs
from .api.graphs import read_graphs as read_graphs
from .api.machine_inputs import load_machine as load_machine
from .api.machine_inputs import load_topology as load_topology
from .api.machines import calibrate as calibrate
from .api.machines import validate_machine as validate_machine
from .api.maxrate import fit_max_rate as fit_max_rate
from .api.networks import RankMapping as RankMapping
from .api.networks import map_ranks as map_ranks
from .api.networks import network_loads as network_loads
from .api.networks import simulate_network as simulate_network
from .api.percs import TaskMapping as TaskMapping
from .api.percs import link_loads as link_loads
from .api.percs import map_tasks as map_tasks
from .api.prediction_table import Prediction as Prediction
from .api.predictions import predict as predict
from .api.references import reference as reference
from .api.runs import Run as Run
from .api.runs import open_run as open_run
from .api.schedules import FastestSchedule as FastestSchedule
from .api.schedules import fastest_schedule as fastest_schedule
from .api.simulations import simulate as simulate
from .core.errors import InputError as InputError

__version__: str
__all__: list[str]
