"""Times of messages between processes, from the output of benchmarks and from tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fabricast.api.machine_inputs import Files, paths_of
from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Facts, Quantity, SourceFile
from fabricast.inputs.files import read_bytes, write_text
from fabricast.machine.build import check_usable
from fabricast.maxrate.measurements import read_measurements
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.reading import read
from fabricast.sources.tables import columns_of
from fabricast.sources.text import Text

#: Beginning of a table in bytes, which has its header.
_HEAD_BYTES = 1 << 16

_COLUMNS = [
    "dataset",
    "system",
    "path",
    "processes",
    "size_bytes",
    "time_s",
    "convention",
    "estimator",
    "repetitions",
    "spread",
]


def message_facts(files: Files) -> Facts:
    """Read files with times of messages: tables, or output of benchmarks, of which a file may contain several.

    Known output of another kind, among such files, is a problem of its file, and no error.
    """
    paths = paths_of(files)
    if not paths:
        raise InputError("is empty, expected at least one file", argument="files")
    facts = read(paths)
    others = {file.path for file in facts.files if _is_of_another_kind(file)}
    messages = Facts(tuple(file for file in facts.files if file.path not in others))
    if others and any(block.facts for block in messages.blocks_of(Content.MESSAGES)):
        check_usable(messages, Content.MESSAGES)
        return Facts(tuple(_left_out(file) if file.path in others else file for file in facts.files))
    check_usable(facts, Content.MESSAGES)
    if not any(block.facts for block in facts.blocks_of(Content.MESSAGES)):
        block = next(block for block in facts.blocks if block.facts)
        raise InputError(f"has {block.content} ({block.program}), expected {Content.MESSAGES}", path=block.place.path)
    has_times = any(facts.of(Quantity.MESSAGE_TIME)) or any(facts.of(Quantity.FILE))
    note = None if has_times or facts.problems else next(facts.of(Quantity.NOTE), None)
    if note is not None:
        raise InputError(f"has no times of messages that can be used: {note.value}", path=note.place.path)
    return facts


def _is_of_another_kind(file: SourceFile) -> bool:
    """Return whether a file is known output without times of messages."""
    return file.problem is None and bool(file.blocks) and all(b.content is not Content.MESSAGES for b in file.blocks)


def _left_out(file: SourceFile) -> SourceFile:
    """Return a file whose content is named as a problem."""
    first = file.blocks[0]
    reason = f"has {first.text or f'{first.content} ({first.program})'}, which is not fitted"
    problem = InputError(reason, path=file.path)
    return replace(file, blocks=(Block(first.program, Content.MESSAGES, first.place, (), (problem,)),))


def message_times(facts: Facts, *, processes: int | None = None, node_pairs: int = 1) -> pd.DataFrame:
    """Return one row per time that benchmarks printed, as processes of one node pair."""
    rows = [
        (fact.place.path, fact.program, time.path, time.processes, time.size_bytes, time.time_s, time.convention)
        for fact in facts.of(Quantity.MESSAGE_TIME)
        for time in [_of_processes(fact, processes, node_pairs)]
    ]
    return pd.DataFrame(rows, columns=["file", "program", "path", "processes", "size_bytes", "time_s", "convention"])


def _of_processes(fact: Fact, processes: int | None, node_pairs: int) -> MessageTime:
    time: MessageTime = fact.value
    try:
        return time.of_processes(processes, node_pairs)
    except InputError as error:
        raise InputError(error.reason, path=fact.place.path, line=fact.place.line, argument=error.argument) from error


def check_counts_of_table(processes: int | None, node_pairs: int) -> None:
    """Refuse numbers of processes and node pairs with a table, whose column counts the processes of one node."""
    for argument, is_specified in (("processes", processes is not None), ("node_pairs", node_pairs != 1)):
        if is_specified:
            raise InputError(
                "is only for the output of benchmarks; the column processes of a table counts the processes of a node",
                argument=argument,
            )


def measurements_of_facts(
    facts: Facts, *, processes: int | Mapping[str, int] | None = None, node_pairs: int = 1
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the measurements of each file, one row per cell; the number of processes may differ by file."""
    for file in facts.files:
        if not any(block.facts for block in file.blocks):
            continue
        count = processes.get(file.path) if isinstance(processes, Mapping) else processes
        tables = [fact for block in file.blocks if block.program == _TABLE for fact in block.facts]
        if tables:
            check_counts_of_table(count, node_pairs)
            path, text = tables[0].value
            yield file.path, read_measurements(path, text=text)
        else:
            if isinstance(processes, Mapping) and count is not None:
                _check_stated(file, count)
            yield file.path, _cells(file, count, node_pairs)


def datasets_of_facts(
    facts: Facts, *, processes: int | Mapping[str, int] | None = None, node_pairs: int = 1
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the measurements of each file; outputs of one benchmark with different process counts are one data set."""
    # A file that is named twice has no more measurements.
    facts = Facts(tuple({file.path: file for file in facts.files}.values()))
    tables = {file.path for file in facts.files if any(block.program == _TABLE for block in file.blocks)}
    outputs: dict[tuple[str, str], list[tuple[str, pd.DataFrame]]] = {}
    for path, rows in measurements_of_facts(facts, processes=processes, node_pairs=node_pairs):
        if path in tables:
            yield path, rows
        else:
            for (test, convention), part in rows.groupby(["path", "convention"], sort=True):
                outputs.setdefault((str(test), str(convention)), []).append((path, part))
    for (test, _), group in outputs.items():
        if not _differ(group) and not _are_parts(group):
            yield from group
            continue
        whole = pd.concat([part for _, part in group], ignore_index=True)
        # Repeated runs of one number of processes: the median.
        whole["time_s"] = whole.groupby(["processes", "size_bytes"])["time_s"].transform("median")
        whole = whole.drop_duplicates(["processes", "size_bytes"], ignore_index=True)
        yield group[0][0], whole.assign(dataset=f"{test} ({len(group)} files)", system=group[0][1]["system"].iloc[0])


#: Sizes that outputs have in common if they are one data set.
_LEAST_COMMON = 4


def _differ(group: Sequence[tuple[str, pd.DataFrame]]) -> bool:
    """Return whether several files have different process counts and common sizes."""
    counts = {int(count) for _, part in group for count in part["processes"]}
    sizes = frozenset.intersection(*(frozenset(part["size_bytes"]) for _, part in group))
    return len(group) > 1 and len(counts) > 1 and len(sizes) >= _LEAST_COMMON


def _are_parts(group: Sequence[tuple[str, pd.DataFrame]]) -> bool:
    """Return whether several files have few different sizes each, as of programs with one size in a run."""
    cells = [set(zip(part["processes"], part["size_bytes"], strict=True)) for _, part in group]
    return len(group) > 1 and min(map(len, cells)) < _LEAST_COMMON and len(set.union(*cells)) > max(map(len, cells))


def _check_stated(file: SourceFile, processes: int) -> None:
    """Refuse a number of processes for a file that states another one."""
    for block in file.blocks:
        for fact in block.of(Quantity.MESSAGE_TIME):
            if fact.value.processes not in (None, processes):
                raise InputError(
                    f"states {fact.value.processes} pairs of processes, not {processes}",
                    path=fact.place.path,
                    line=fact.place.line,
                )


#: Program of blocks that are tables.
_TABLE = "table of message times"


def _cells(file: SourceFile, processes: int | None, node_pairs: int) -> pd.DataFrame:
    """Return the cells of benchmark output: the median over repetitions."""
    times = message_times(Facts((file,)), processes=processes, node_pairs=node_pairs)
    groups = times.groupby(["path", "processes", "size_bytes", "convention"], sort=True)["time_s"]
    cells = groups.agg(time_s="median", low="min", high="max", repetitions="count").reset_index()
    stem = Path(file.path).stem
    return cells.assign(
        dataset=stem + "." + cells["path"],
        system=stem,
        estimator="median",
        spread=(cells["high"] - cells["low"]) / cells["time_s"],
    ).drop(columns=["low", "high"])


def netgauge_tables(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield path and text of the output of netgauge."""
    for block in facts.blocks:
        if block.program == "netgauge":
            yield from (fact.value for fact in block.of(Quantity.FILE))


def write_measurements(
    paths: Sequence[Path],
    output: Path,
    *,
    processes: int | Mapping[str, int] | None = None,
    node_pairs: int = 1,
    name: str | None = None,
) -> pd.DataFrame:
    """Collect benchmark outputs in one CSV file with the digest of each source."""
    for path in paths:
        if not path.is_file():
            raise InputError("is not a file, expected a regular file to record its digest", path=path)
    facts = message_facts(paths)
    frames = [
        rows.assign(file=Path(path).name)
        for path, rows in measurements_of_facts(facts, processes=processes, node_pairs=node_pairs)
    ]
    table = pd.concat(frames, ignore_index=True)
    system = name or output.stem
    # Times of one path and convention are one data set, even from several files: a fit needs several process counts.
    conventions = table.groupby("path")["convention"].transform("nunique")
    path_class = table["path"].where(conventions == 1, table["path"] + "." + table["convention"])
    table["dataset"] = system if path_class.nunique() == 1 else system + "." + path_class
    table["system"] = system
    key = ["dataset", "path", "processes", "size_bytes"]
    repeated = table[table.duplicated(key, keep=False)].sort_values([*key, "file"])
    if len(repeated):
        first, second = repeated.iloc[0], repeated.iloc[1]
        raise InputError(
            f"{first['file']} and {second['file']} both contain {first['processes']} processes and "
            f"{first['size_bytes']:g} bytes, expected one time per cell; exclude a file or collect them under two names"
        )
    table = table.sort_values(["dataset", "processes", "size_bytes"], ignore_index=True)[_COLUMNS]
    # A newline in a file name must not terminate the comment.
    sources = [
        f"# {''.join(c if c.isprintable() else '?' for c in Path(file.path).name)} sha256 {_digest(file)}\n"
        for file in facts.files
    ]
    write_text(output, "".join(sources) + table.to_csv(index=False, lineterminator="\n"))
    return table


def _digest(file: SourceFile) -> str:
    """Return the digest of a file, which large tables have not yet."""
    return file.sha256 or hashlib.sha256(read_bytes(file.path)).hexdigest()


def assumes_one_way(facts: Facts) -> bool:
    """Return whether a table of messages has no column that states what its times are."""
    blocks = [block for block in facts.blocks_of(Content.MESSAGES) if block.program.startswith("table")]
    return any("convention" not in columns_of(Text(path, _head(path))) for path in {one.place.path for one in blocks})


def _head(path: str) -> str:
    """Return the beginning of a CSV file; of other input a header that states everything."""
    if Path(path).suffix.lower() != ".csv" or not Path(path).is_file():
        return "convention,"
    with Path(path).open("rb") as file:
        return file.read(_HEAD_BYTES).decode(errors="replace")
