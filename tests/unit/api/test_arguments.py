"""Types of the arguments of all public functions."""

import inspect
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest

import fabricast as fc
from fabricast.core.arguments import with_checked_types

VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
FUNCTIONS = {name: getattr(fc, name) for name in dir(fc) if inspect.isfunction(getattr(fc, name))}
PARAMETERS = [
    (name, parameter.name)
    for name, function in FUNCTIONS.items()
    for parameter in inspect.signature(function).parameters.values()
    if parameter.kind not in VARIABLE
]


class Other:
    """A value that no public function accepts."""

    def __repr__(self):
        return "<other>"


def test_all_public_functions_are_covered():
    assert {"predict", "graph", "collective", "diagnose", "simulate", "calibrate", "fit_max_rate"} <= FUNCTIONS.keys()
    assert len(PARAMETERS) > 80
    for function in FUNCTIONS.values():
        assert get_type_hints(function)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_every_argument_of_a_wrong_type_is_named(name, parameter):
    required = {
        one.name: Other()
        for one in inspect.signature(FUNCTIONS[name]).parameters.values()
        if one.default is inspect.Parameter.empty and one.kind not in VARIABLE
    }
    with pytest.raises(fc.InputError, match=f"^({'|'.join(required)}|{parameter}) is <other>, expected "):
        FUNCTIONS[name](**(required | {parameter: Other()}))


@with_checked_types
def accept(
    number: float = 0.0,
    count: int = 0,
    flag: bool = False,
    text: str | None = None,
    path: str | Path = "a",
    several: Sequence[int] = (),
    any_of: Iterable[tuple[int, int]] = (),
    named: Mapping[str, float] | None = None,
) -> int:
    """Return the number of elements."""
    return len(several)


@pytest.mark.parametrize(
    "arguments",
    [
        {"number": 1},
        {"number": np.float32(1)},
        {"number": np.int64(1)},
        {"count": np.int32(2)},
        {"flag": np.True_},
        {"text": None},
        {"path": Path("x")},
        {"several": [1, np.int64(2)]},
        {"several": np.array([1.0])},
        {"any_of": iter([(0, 1)])},
        {"any_of": [[0, 1]]},
        {"named": {"a": 1}},
        {"number": Decimal("0.5")},
        {"number": np.array(0.5)},
        {"count": 2.0},
        {"several": range(3)},
        {"several": {1: 2}.keys()},
        {"several": pd.Series([1])},
        {"path": PurePosixPath("x")},
    ],
)
def test_accepted_types(arguments):
    assert accept(**arguments) == len(arguments.get("several", ()))


def test_numpy_scalars_and_iterables_are_sizes():
    expected = fc.graph([(0, 1), (1, 2)], size=2048, start_s=1.0)
    for size, start in (
        (np.int64(2048), np.float32(1)),
        (iter([2048, 2048]), pd.Series([1.0, 1.0])),
        (Decimal(2048), 1),
    ):
        graphs = fc.graph([(0, 1), (1, 2)], size=size, start_s=start)
        assert graphs.size_bytes.tolist() == expected.size_bytes.tolist()
        assert graphs.start_s.tolist() == expected.start_s.tolist()
    assert fc.halo_exchange(fc.load_topology("storm8"), pd.Series([4, 2])).source.size == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"number": True}, "number is True, expected a number"),
        ({"number": "1"}, "number is '1', expected a number"),
        ({"number": None}, "number is None, expected a number"),
        ({"count": 1.5}, "count is 1.5, expected an integer"),
        ({"count": float("inf")}, "count is inf, expected an integer"),
        ({"number": 10**400}, f"number is {reprlib.repr(10**400)}, expected a number"),
        ({"number": 1j}, "number is 1j, expected a number"),
        ({"several": np.array(["a"])}, "several contains 'a', expected an integer"),
        ({"named": {1: 2.0}}, "named contains 1, expected text"),
        ({"count": False}, "count is False, expected an integer"),
        ({"flag": 1}, "flag is 1, expected True or False"),
        ({"text": 5}, "text is 5, expected text"),
        ({"path": b"a"}, "path is b'a', expected text or a path"),
        ({"several": "12"}, "several is '12', expected a sequence"),
        ({"several": [1, "2"]}, "several contains '2', expected an integer"),
        ({"any_of": 3}, "any_of is 3, expected a sequence"),
        ({"named": [1]}, "named is [1], expected a mapping"),
        ({"named": {"a": "b"}}, "named contains 'b', expected a number"),
    ],
)
def test_refused_types(arguments, message):
    with pytest.raises(fc.InputError) as error:
        accept(**arguments)
    assert str(error.value) == message


def test_keyword_values_are_checked():
    for value in ("84%", None, []):
        with pytest.raises(fc.InputError, match="pio_copy is .*, expected a number"):
            fc.what_if("thunderx2", pio_copy=value)
    with pytest.raises(fc.InputError, match="files is empty"):
        fc.diagnose([])


def test_missing_and_unknown_arguments_name_the_function():
    with pytest.raises(TypeError, match=r"graph\(\) missing 1 required positional argument: 'pairs'"):
        fc.graph()
    with pytest.raises(TypeError, match=r"graph\(\) got an unexpected keyword argument 'start'"):
        fc.graph([(0, 1)], start=1)


def test_diagnose_accepts_several_files_as_arguments(tmp_path):
    paths = [tmp_path / f"{name}.txt" for name in "ab"]
    for path in paths:
        path.write_text("GPU 0: NVIDIA L4 (UUID: GPU-1)\n")
    assert fc.diagnose(*paths).sources == fc.diagnose(paths).sources
    with pytest.raises(fc.InputError, match="more is 5, expected text or a path"):
        fc.diagnose(paths[0], 5)
