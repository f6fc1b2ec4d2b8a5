"""The kernels of the PCIe models as JavaScript."""

import re

import pytest

from fabricast.report.javascript_kernels import kernel_script, to_javascript


def test_translator_rejects_unsupported_syntax():
    assert "function evaluate_graphs(" in kernel_script()
    for line in ("a ** b", "a // b", "[x for x in a]", "a < b < c", "print('x')"):
        with pytest.raises(NotImplementedError):
            to_javascript(f"def f(a, b, c):\n    d = {line}\n")
    with pytest.raises(NotImplementedError):
        to_javascript("def f(a):\n    with a:\n        pass\n")
    with pytest.raises(NotImplementedError):
        to_javascript("A, B = 1 << 4, 2\n")


def test_all_functions_of_the_script_are_defined():
    script = kernel_script()
    defined = set(re.findall(r"(?:function |const |, )(\w+)(?:\(| = )", script))
    called = set(re.findall(r"(?<![\w.])([A-Za-z_]\w*)\(", script)) - {"if", "for", "while", "function"}
    assert called <= defined | {"Error", "Kind", "Int32Array", "Float64Array"}, called - defined
