"""Networks and patterns shared by the tests of two-level networks."""

from fabricast.percs.cases import evaluate_alike
from fabricast.percs.network import TwoLevelNetwork

SEED = 20161113


def evaluate_case(case, root_seed):
    return evaluate_alike([case], root_seed)[0]


def small(groups=4, gateway="mod", multiplicity=1):
    return TwoLevelNetwork(groups, 2, 3, 2, multiplicity=multiplicity, gateway=gateway)
