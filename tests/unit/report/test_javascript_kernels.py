"""The kernels of the PCIe models as JavaScript."""

import pytest

from fabricast.report.javascript_kernels import kernel_script, to_javascript


def test_translator_rejects_unsupported_syntax():
    assert "function evaluate_graphs(" in kernel_script()
    for line in ("a ** b", "a // b", "[x for x in a]", "a < b < c", "print('x')"):
        with pytest.raises(NotImplementedError):
            to_javascript(f"def f(a, b, c):\n    d = {line}\n")
    with pytest.raises(NotImplementedError):
        to_javascript("def f(a):\n    with a:\n        pass\n")
