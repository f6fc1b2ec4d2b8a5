"""The compiled models as JavaScript: one source, two languages, the same bits.

Kernels are written in a small part of Python. What this translator does not know it refuses, so that an edit of a
kernel fails here and not in the page.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib import resources

#: Modules in the order in which their names are used.
_MODULES = ("working_memory", "congestion", "back_pressure", "bottlenecks", "max_min", "models")
_OPERATORS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitOr: "|",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "===",
    ast.NotEq: "!==",
    ast.And: "&&",
    ast.Or: "||",
    ast.Not: "!",
    ast.USub: "-",
}
#: Arrays of several dimensions: data, length of the last dimension, length of the one before.
_ARRAY = (
    "const array = (Kind, ...sides) => "
    "({ d: new Kind(sides.reduce((a, b) => a * b)), s: sides[sides.length - 1], t: sides[sides.length - 2] });"
)
#: The page explains each copy, for which no rates of known sets are kept (`fabricast.pcie.models.kernels.known_sets`).
_KNOWN_SETS = (
    "const RATES = 1, new_known_sets = () => ({ kind: { s: 0 } });\n"
    "const place_of_set = () => { throw new Error('known sets'); };"
)
_KINDS = {"float64": "Float64Array", "int64": "Int32Array"}


def _expression(node: ast.expr) -> str:
    """Return an expression; equality compares numbers, as Python does with truth values."""
    match node:
        case ast.Constant(value=bool(value)):
            return str(value).lower()
        case ast.Constant(value=int() | float() as value):
            return repr(value)
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np"), attr="inf"):
            return "Infinity"
        case ast.Attribute(value=value, attr="size"):
            return f"{_expression(value)}.length"
        case ast.Subscript(value=ast.Attribute(value=value, attr="shape"), slice=ast.Constant(value=1)):
            return f"{_expression(value)}.s"
        case ast.Attribute(value=value, attr=name):
            return f"{_expression(value)}.{name}"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return f"({_expression(left)} {_OPERATORS[type(operator)]} {_expression(right)})"
        case ast.BoolOp(op=operator, values=values):
            return "(" + f" {_OPERATORS[type(operator)]} ".join(map(_expression, values)) + ")"
        case ast.UnaryOp(op=operator, operand=value) if type(operator) in _OPERATORS:
            return f"{_OPERATORS[type(operator)]}({_expression(value)})"
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[right]):
            return f"(+{_expression(left)} {_OPERATORS[type(operator)]} +{_expression(right)})"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return f"({_expression(left)} {_OPERATORS[type(operator)]} {_expression(right)})"
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return f"({_expression(test)} ? {_expression(body)} : {_expression(otherwise)})"
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[row, column])):
            array = _expression(value)
            return f"{array}.d[{_expression(row)} * {array}.s + {_expression(column)}]"
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[plane, row, column])):
            array, line = _expression(value), _expression(row)
            return f"{array}.d[({_expression(plane)} * {array}.t + {line}) * {array}.s + {_expression(column)}]"
        case ast.Subscript(value=value, slice=index):
            return f"{_expression(value)}[{_expression(index)}]"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr="uint32"), args=[value]):
            return _expression(value)
        case ast.Call(func=ast.Name(id="min" | "max" | "abs" as name), args=arguments):
            return f"Math.{name}({', '.join(map(_expression, arguments))})"
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return f"{name}({', '.join(map(_expression, arguments))})"
        case ast.Call(
            func=ast.Attribute(attr="empty" | "zeros"),
            args=[ast.Tuple(elts=sides)],
            keywords=[ast.keyword(arg="dtype", value=ast.Attribute(attr=kind))],
        ):
            return f"array({_KINDS[kind]}, {', '.join(map(_expression, sides))})"
        case ast.Call(
            func=ast.Attribute(attr="empty"),
            args=[size],
            keywords=[ast.keyword(arg="dtype", value=ast.Attribute(attr=kind))],
        ):
            return f"new {_KINDS[kind]}({_expression(size)})"
        case ast.Tuple(elts=elements):
            return "[" + ", ".join(map(_expression, elements)) + "]"
    raise NotImplementedError(ast.unparse(node))


def _loop(name: str, arguments: list[ast.expr], body: list[ast.stmt]) -> list[str]:
    start, stop, step = (
        ["0", _expression(arguments[0]), "1"] if len(arguments) == 1 else [*map(_expression, arguments), "1"][:3]
    )
    beyond = ">" if step.startswith("-") else "<"
    head = f"for (let _{name} = {start}, _end = {stop}; _{name} {beyond} _end; _{name} += {step}) {{ {name} = _{name};"
    return [head, *_block(body), "}"]


def _statement(node: ast.stmt) -> list[str]:
    match node:
        case ast.Expr(value=ast.Constant()):
            return []
        case ast.Expr(value=value):
            return [f"{_expression(value)};"]
        case ast.Assign(targets=[target], value=value):
            return [f"{_expression(target)} = {_expression(value)};"]
        case ast.AugAssign(target=target, op=operator, value=value) if type(operator) in _OPERATORS:
            return [f"{_expression(target)} {_OPERATORS[type(operator)]}= {_expression(value)};"]
        case ast.Return(value=None):
            return ["return;"]
        case ast.Return(value=ast.expr() as value):
            return [f"return {_expression(value)};"]
        case ast.Continue():
            return ["continue;"]
        case ast.Break():
            return ["break;"]
        case ast.If(test=test, body=body, orelse=otherwise):
            lines = [f"if ({_expression(test)}) {{", *_block(body), "}"]
            return [*lines, "else {", *_block(otherwise), "}"] if otherwise else lines
        case ast.While(test=test, body=body, orelse=[]):
            return [f"while ({_expression(test)}) {{", *_block(body), "}"]
        case ast.For(
            target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=arguments), body=body, orelse=[]
        ):
            return _loop(name, arguments, body)
    raise NotImplementedError(ast.unparse(node))


def _block(body: Iterable[ast.stmt]) -> list[str]:
    return [line for node in body for line in _statement(node)]


def _function(node: ast.FunctionDef) -> list[str]:
    parameters = [argument.arg for argument in node.args.args]
    stored = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    local = sorted(stored - set(parameters))
    declared = [f"let {', '.join(local)};"] if local else []
    return [f"function {node.name}({', '.join(parameters)}) {{", *declared, *_block(node.body), "}"]


def to_javascript(source: str) -> list[str]:
    r"""Return the constants and functions of a module of kernels as lines of JavaScript.

    >>> to_javascript("def f(a):\n    for i in range(a.size):\n        a[i] *= 2.0\n")[0]
    'function f(a) {'
    """
    lines: list[str] = []
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="range"))):
                lines.append("const " + ", ".join(f"{_expression(name)} = {i}" for i, name in enumerate(names)) + ";")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float() as value)):
                lines.append(f"const {name} = {value!r};")
            case ast.ClassDef(name=name, body=body):
                fields = ", ".join(field.target.id for field in body if isinstance(field, ast.AnnAssign))  # type: ignore[union-attr]
                lines.append(f"const {name} = ({fields}) => ({{ {fields} }});")
            case ast.FunctionDef():
                lines += _function(node)
            case ast.Assign():
                raise NotImplementedError(ast.unparse(node))
    return lines


def kernel_script() -> str:
    """Return the models of the PCIe study as JavaScript that defines ``evaluate_graphs``."""
    lines, seen = [_ARRAY, _KNOWN_SETS], set[str]()
    for module in _MODULES:
        source = resources.files("fabricast.pcie.models.kernels").joinpath(f"{module}.py").read_text(encoding="utf-8")
        names = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
        if names & seen:
            raise NotImplementedError(f"{', '.join(sorted(names & seen))} in two modules of kernels")
        seen |= names
        lines += to_javascript(source)
    return "\n".join(lines) + "\n"
