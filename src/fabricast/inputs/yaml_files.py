"""Safe YAML reader with line numbers and validation by a pydantic model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from fabricast.core.errors import InputError, near_names
from fabricast.inputs.files import LARGEST_YAML_BYTES, read_text

_LONGEST_QUOTE = 200
_DEEPEST = 100

ModelType = TypeVar("ModelType", bound=BaseModel)
Location = tuple[str | int, ...]


#: The loader of libyaml if it is available: it is about ten times as fast as the Python loader.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _PlainLoader(_SafeLoader):  # type: ignore[misc]
    """A safe loader that rejects duplicate keys and keys that are lists or mappings."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key is a list or mapping, expected a name", problem_mark=key_node.start_mark
                )
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key '{key_node.value}' is a duplicate", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, str):
                # Unpaired surrogates cannot be encoded as UTF-8.
                value.encode("utf-8")
            return value
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            # PyYAML does not catch errors of Python's constructors: invalid dates, huge numbers, wrong tags.
            raise yaml.MarkedYAMLError(
                problem=f"'{str(node.value)[:80]}' is not a valid {node.tag.rpartition(':')[2]}",
                problem_mark=node.start_mark,
            ) from error


def _lines(node: yaml.Node | None, location: Location = ()) -> dict[Location, int]:
    lines: dict[Location, int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            lines[(*location, key.value)] = key.start_mark.line + 1
            lines.update(_lines(value, (*location, key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*location, index)] = value.start_mark.line + 1
            lines.update(_lines(value, (*location, index)))
    return lines


def _refuse_traps(text: str) -> None:
    """Reject YAML aliases (entity expansion) and nesting deep enough to crash libyaml."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        problem = "the nesting is too deep" if depth > _DEEPEST else "a value is an alias, expected plain values"
        if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def read_yaml(path: Path | str, text: str | None = None) -> tuple[Any, dict[Location, int]]:
    """Read a YAML file, or its text, and the line number of each key."""
    text = read_text(path, strict=True, most_bytes=LARGEST_YAML_BYTES) if text is None else text
    if len(text) > LARGEST_YAML_BYTES:
        raise InputError(f"is larger than {LARGEST_YAML_BYTES / 1e6:g} MB, expected smaller YAML", path=path)
    try:
        _refuse_traps(text)
        loader = _PlainLoader(text)
        node = loader.get_single_node()
        return (None if node is None else loader.construct_document(node)), _lines(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        # A problem at the end of the file is reported for its last line.
        line = None if mark is None else min(mark.line + 1, max(1, len(text.splitlines())))
        raise InputError(f"is not valid YAML: {problem}", path=path, line=line) from error


def validate(
    model: type[ModelType], value: Any, *, path: Path | str | None = None, lines: dict[Location, int] | None = None
) -> ModelType:
    """Validate plain values with a pydantic model."""
    try:
        found = model.model_validate(value)
        wrong = _boolean_number(value, found, ())
        if wrong is None:
            return found
        raise InputError(
            f"key '{'.'.join(map(str, wrong))}' is a boolean, expected a number or text",
            path=path,
            line=(lines or {}).get(wrong),
        )
    except ValidationError as error:
        first = error.errors()[0]
        location: Location = tuple(first["loc"])
        key = ".".join(map(str, location)) or "the file"
        value_text = "" if isinstance(first["input"], dict | list) else f" is {_quoted(first['input'])}"
        if first["type"] == "extra_forbidden":
            fields = _fields_at(model, location[:-1])
            expected = f"one of {', '.join(fields)}" if fields else "a documented key"
            message = f"key '{key}' is unknown{near_names(str(location[-1]), fields)}, expected {expected}"
        elif first["type"] == "missing":
            every = [".".join(map(str, one["loc"])) for one in error.errors() if one["type"] == "missing"]
            named = ", ".join(f"'{name}'" for name in every)
            message = f"key '{key}' is missing" if len(every) == 1 else f"keys {named} are missing"
        elif first["type"] in ("model_type", "dict_type"):
            where = f"key '{key}' is" if location else "is"
            message = (
                f"{where} {'empty' if first['input'] is None else _quoted(first['input'])}, expected keys with values"
            )
        elif first["type"] == "invalid_key":
            message = f"key '{key}' is a number: a comma divides entries, expected a point in decimal numbers"
        else:
            message = f"key '{key}'{value_text}: {first['msg'].removeprefix('Value error, ')}"
        line = None
        while lines and location and line is None:
            line = lines.get(location)
            location = location[:-1]
        raise InputError(message, path=path, line=line) from error


def _boolean_number(value: Any, found: Any, location: Location) -> Location | None:
    """Return the place of the first boolean that the model converted to a number or text."""
    if isinstance(value, bool):
        return None if isinstance(found, bool) else location
    if isinstance(value, dict):
        parts = {key: getattr(found, key, None) for key in value} if isinstance(found, BaseModel) else found
        pairs = [(key, one, parts.get(key)) for key, one in value.items()] if isinstance(parts, dict) else []
    elif isinstance(value, list) and isinstance(found, list | tuple) and len(found) == len(value):
        pairs = list(zip(range(len(value)), value, found, strict=True))
    else:
        pairs = []
    return next(
        (wrong for key, one, other in pairs if (wrong := _boolean_number(one, other, (*location, key))) is not None),
        None,
    )


def _quoted(value: Any) -> str:
    try:
        return repr(value)[:_LONGEST_QUOTE]
    except ValueError:
        return "a number with too many digits"


def load_model(path: Path | str, model: type[ModelType]) -> ModelType:
    """Read a YAML file and validate it with a pydantic model."""
    value, lines = read_yaml(path)
    return validate(model, value, path=path, lines=lines)


def _fields_at(model: type[BaseModel], location: Location) -> list[str]:
    """Return the keys that a section of a file may have; none if its type is unknown."""
    section: Any = model
    for key in location:
        fields = getattr(section, "model_fields", None)
        if fields is not None:
            section = fields[key].annotation if key in fields else None
            continue
        # The number of an element, or the name of an entry.
        options = [one for one in get_args(section) if one is not type(None)]
        section = options[-1] if options else None
    while section is not None and not hasattr(section, "model_fields"):
        options = [one for one in get_args(section) if hasattr(one, "model_fields")]
        section = options[0] if options else None
    return list(section.model_fields) if section is not None else []
