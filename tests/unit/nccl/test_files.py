"""Logs of nccl-tests and NCCL, graph files and tuner files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.inputs.log_lines import clean_lines
from fabricast.nccl.costs import Operation
from fabricast.nccl.graph_files import graph_text, read_graph
from fabricast.nccl.search import SearchGraph
from fabricast.nccl.system import PathType
from fabricast.nccl.tuner_files import TunerRule, tuner_text
from fabricast.sources.reading import facts_of_text
from tests.conftest import REPOSITORY
from tests.machines import tables_in, values_in


def log_in(text):
    """Return what NCCL printed into a text."""
    (log,) = values_in(text, Quantity.NCCL_RUN, "x.log")
    return log


DATA = REPOSITORY / "tests" / "data" / "collectives"
TESTS_LOG = (DATA / "nccl_tests.log").read_text()
DEBUG_LOG = (DATA / "nccl_debug_info.log").read_text()


def test_all_tables_of_a_log_are_read():
    tables = tables_in(TESTS_LOG, "x.log")
    assert [str(table) for table in tables] == [
        "nccl-tests 2.19.6, all_reduce_perf, 4 ranks, 9 sizes",
        "nccl-tests 2.19.6, alltoall_perf, 4 ranks, 5 sizes",
        # The operation of the last table is not printed: the bus bandwidth has the factor of all_reduce.
        "nccl-tests 2.19.6, all_reduce_perf, 4 ranks, 3 sizes",
    ]
    first = tables[0]
    assert first.gpus == ("NVIDIA L40S",) * 4
    assert first.bus_ids == ("0000:16:00", "0000:17:00", "0000:9a:00", "0000:9b:00")
    assert first.library == (2, 30, 7)
    row = first.rows[-1]
    assert row.size_bytes == 67108864
    assert (row.time_s, row.in_place_s) == pytest.approx((4794.27e-6, 4809.53e-6))
    assert tables[2].excluded == ((66, "has 8 wrong values"),)


PREFIXES = ["[1,0]<stdout>:", "0: ", "[2026-03-02 10:11:12] ", "worker-0 | ", "\x1b[32m", "00:55:22  "]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_decorated_lines_are_read(prefix, ending):
    text = ending.join(prefix + line for line in TESTS_LOG.splitlines())
    plain = tables_in(TESTS_LOG, "x.log")
    assert [table.rows for table in tables_in(text, "x.log")] == [table.rows for table in plain]


def test_times_are_decoration_only_if_all_lines_have_one():
    assert [line for _, line in clean_lines("00:55:22  a\n00:55:22\n00:55:23    b")] == ["a", "", "  b"]
    for text in ("00:55:22  a\nb", "00:55:22  a"):
        assert "\n".join(line for _, line in clean_lines(text)) == text


def test_lines_of_nccl_between_the_rows_are_ignored():
    lines = TESTS_LOG.splitlines()
    mixed = [part for line in lines for part in (line, "node01:7:7 [0] NCCL INFO Channel 00/02 : 0 1 2 3")]
    tables = tables_in("\n".join(mixed), "x.log")
    assert [len(table.rows) for table in tables] == [9, 5, 2]


def test_a_truncated_last_row_is_excluded():
    cut = TESTS_LOG[: TESTS_LOG.index("4794.27")] + "4794.27   14"
    (table,) = tables_in(cut, "all_reduce_perf.log")
    assert len(table.rows) == 8
    assert "truncated" in table.excluded[0][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("335.19   12.51   18.77", "335.19   12.51   12.51"), "may be the algorithm bandwidth"),
        (("     4194304       1048576", "       65536         16384"), "expected increasing sizes"),
    ],
)
def test_contradictory_rows_are_rejected_with_their_line(change, message):
    with pytest.raises(InputError, match=message) as error:
        tables_in(TESTS_LOG.replace(*change, 1), "x.log")
    assert str(error.value).startswith("x.log:")


def test_a_log_without_a_table_has_no_tables():
    assert not tables_in("hello\n", "x.log")


def test_the_statements_of_a_debug_log_are_read():
    log = log_in(DEBUG_LOG)
    assert (log.ranks, log.nodes, log.version, log.coll_channels) == (4, 1, (2, 30, 7), 2)
    assert log.orders == {0: (0, 1, 2, 3), 1: (0, 1, 2, 3)}
    assert log.uses_p2p == {(0, 1): True, (1, 2): False, (2, 3): True, (3, 0): False}
    assert log.patterns[4] == (1, 15.0, PathType.SYS)
    assert [(choice.size_bytes, choice.protocol, choice.channels) for choice in log.choices] == [
        (4096, "ll", 1),
        (16777216, "simple", 2),
    ]
    assert log.rings() == SearchGraph(((0, 1, 2, 3),), 15.0, PathType.SYS)


def test_lines_of_older_versions_are_read():
    log = log_in((DATA / "nccl_debug_info_older_lines.log").read_text())
    assert log.orders == {0: (0, 1, 2, 3)}
    assert log.environment == {"NCCL_P2P_LEVEL": "SYS"}
    assert log.disabled_pairs == {("node01", 0, 1)}
    assert 4 in log.fallbacks
    assert log.choices[0].protocol == "simple"


def test_two_values_of_one_variable_are_rejected():
    text = DEBUG_LOG + "n:1:1 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"
    text += "n:1:1 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n"
    with pytest.raises(InputError, match="different settings"):
        log_in(text)


@given(st.text(max_size=400))
def test_any_text_is_read_or_rejected(text):
    for problem in facts_of_text(text, "x.log").problems:
        assert str(problem)
    assert [number for number, _ in clean_lines(text)] == list(range(1, text.count("\n") + 2))


@given(st.integers(0, len(TESTS_LOG)), st.integers(0, len(DEBUG_LOG)))
def test_truncated_logs_are_read_or_rejected(tests_length, debug_length):
    for text in (TESTS_LOG[:tests_length], DEBUG_LOG[:debug_length]):
        for problem in facts_of_text(text, "x.log").problems:
            assert str(problem).startswith("x.log")


def test_a_graph_file_of_nccl_is_read():
    graph = read_graph(DATA / "graph.xml")
    assert graph == SearchGraph(((0, 1, 2, 3),) * 2, 24.0, PathType.PHB)


@given(st.permutations(range(8)), st.integers(1, 4))
def test_a_written_graph_file_is_read_back(tmp_path_factory, order, channels):
    path = tmp_path_factory.mktemp("graphs") / "graph.xml"
    graph = SearchGraph((tuple(order),) * channels, 15.0, PathType.SYS)
    path.write_text(graph_text(graph, "a comment -- with two hyphens"))
    assert read_graph(path) == graph


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphs version='2'/>", "expected <graphs"),
        ("<graphs version='1'/>", "no graph with id 0"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><graphs version='1'/>", "not valid XML"),
        ("<graphs", "not valid XML"),
        (
            "<graphs version='1'><graph id='0' nchannels='2'><channel><gpu dev='0'/></channel></graph></graphs>",
            "nchannels",
        ),
        (
            "<graphs version='1'><graph id='0' nchannels='1'><channel><gpu dev='0'/><gpu dev='0'/></channel></graph></graphs>",
            "each rank once",
        ),
        (
            "<graphs version='1'><graph id='0' nchannels='1'><channel><gpu dev='x'/></channel></graph></graphs>",
            "dev is",
        ),
    ],
)
def test_other_graph_files_are_rejected(tmp_path, text, message):
    (tmp_path / "graph.xml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_graph(tmp_path / "graph.xml")


def test_a_tuner_file_has_one_line_per_rule():
    rules = [
        TunerRule(Operation.ALL_REDUCE, 0, 99, "ring", "ll", ranks=8),
        TunerRule(Operation.REDUCE, 0, 5, "ring", "simple"),
    ]
    comment, other, fields, *lines = tuner_text(rules, ["machine", "two\nlines"]).splitlines()
    assert (comment, other, fields.count(",")) == ("# machine", "# two lines", 9)
    assert lines == ["allreduce,0,99,ring,ll,-1,1,8,-1,-1", "reduce,0,5,ring,simple,-1,1,-1,-1,-1"]
