"""Performance models of PCIe, GPU, MPI and network communication.

The functions of this module return topologies, congestion graphs and data frames of predictions.

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
