"""Launcher of MPI programs."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from fabricast.runtime.mpi_launch import all_ranks


def test_ranks_that_do_not_see_each_other_name_both_libraries(monkeypatch):
    world = SimpleNamespace(Get_size=lambda: 1)
    mpi = SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "Open MPI v5.0.6\nmore")
    package = ModuleType("mpi4py")
    package.MPI = mpi
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    monkeypatch.setenv("FABRICAST_RANKS", "1")
    assert all_ranks() is world
    monkeypatch.setenv("FABRICAST_RANKS", "2")
    with pytest.raises(RuntimeError, match="mpi4py sees 1 of 2 ranks: it uses Open MPI v5.0.6, and the launcher"):
        all_ranks()
