"""Trees, hardware and strategies shared by the tests of the packet simulator."""

from hypothesis import strategies as st

ARC = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1])
