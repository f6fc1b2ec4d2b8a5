"""Performance models of PCIe, GPU, MPI and network communication.

The functions of this module return topologies, congestion graphs and data frames of predictions.

>>> import fabricast as fc
>>> tree = fc.load_topology("storm8")
>>> times = fc.predict(tree, fc.halo_exchange(tree, (4, 2), size="300 MiB"))
>>> times["bottleneck"].value_counts().idxmax()
'link S0 > RC'
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
