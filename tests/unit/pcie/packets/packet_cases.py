"""Trees, hardware and strategies shared by the tests of the packet simulator."""

from hypothesis import strategies as st

ARC = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda arc: arc[0] != arc[1])
