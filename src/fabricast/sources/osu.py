"""Reader of the point-to-point tests of the OSU benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Quantity
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import commands, count_of, message_reading, numbers_of, one_host, wrong_rows
from fabricast.sources.text import Format, Reading, Text

# Pages may leave out the blank.
_BUFFERS_OF_TITLE = re.compile(r"(?:test|benchmark) ([DHM])-([DHM])\b", re.IGNORECASE)
_TITLE = re.compile(r"# ?OSU MPI")
#: Title of a run with option -d, whose buffers are in GPU memory unless a command or line states others.
_OF_GPU, _ON_GPU = re.compile(r"# ?OSU MPI-(?:CUDA|ROCM|SYCL|OPENACC)\b", re.IGNORECASE), "D D"
#: Tests of two processes or several pairs; not collectives or multi-threaded tests.
_TESTS = re.compile(
    r"# ?osu mpi(-\w+)? (multi |multi-pair |multiple )?(bi-directional )?(latency|bandwidth)\b"
    r"|# ?osu mpi_(put|get) (bi-directional )?bandwidth\b",
    re.IGNORECASE,
)


#: Memory of the buffers, by the last words of a command and by the lines below a title.
_BUFFERS_OF_COMMAND = re.compile(r"\bosu_\w{2,20}\b.{0,400}\s([DHM]) ([DHM])\s*$")
#: Columns and command of a table whose title a page left out: "Size Latency (us)" below "osu_latency".
_COLUMNS = re.compile(r"^\W{0,3}Size\s+(?:Latency \(us\)|Bandwidth \(MB/s\))")
_TEST_OF_COMMAND = re.compile(r"\bosu_(latency|bw|bibw)\b")
_OTHER_TEST = re.compile(r"^[^#]{0,400}(?:mpirun|mpiexec|srun|[$>])\s.{0,400}\bosu_(?!latency\b|bw\b|bibw\b)[a-z]\w+")
_NAMES = {
    "latency": "# osu mpi latency test",
    "bw": "# osu mpi bandwidth test",
    "bibw": "# osu mpi bi-directional bandwidth test",
}
_BESIDE = re.compile(r"(?<=\S)\s+\[\d{1,6},\d{1,6}\]<std\w{3}>:")
_BUFFERS = re.compile(r"Buffer on \w{4,8} \(([DHM])\)")


def is_between_processes(title: str) -> bool:
    """Return whether a heading names a test of two processes or of several pairs."""
    return _TESTS.search(title) is not None


def _has_columns(text: Text) -> bool:
    """Return whether a text has the columns of a table, and the command that names its test."""
    if "Size" not in text.raw or _TEST_OF_COMMAND.search(text.raw) is None:
        return False
    return any(_COLUMNS.match(line) for line in text.clean_lines)


def _times(lines: Sequence[str]) -> Iterator[MessageTime | InputError]:
    """Parse OSU output: one-way latency in us, bandwidth in MB/s over a window."""
    title, columns, buffers, command = "", 0, "", ""
    pairs: int | None = None
    stated = ""
    for number, whole in enumerate(lines, start=1):
        # Of two outputs side by side, the left one is read.
        line = _BESIDE.split(whole, maxsplit=1)[0]
        if _TITLE.search(line):
            title, pairs, columns = line.lower() if is_between_processes(line) else "", None, 0
            # The command above the title states the buffers, the title of older versions, or a line below it.
            of_title = _BUFFERS_OF_TITLE.search(line)
            buffers = stated or (_ON_GPU if _OF_GPU.search(line) is not None else "")
            buffers, stated = buffers if of_title is None else f"{of_title[1]} {of_title[2]}", ""
        elif (match := _BUFFERS_OF_COMMAND.search(line)) is not None:
            stated = f"{match[1]} {match[2]}"
        elif len(memory := _BUFFERS.findall(line)) == 2:
            buffers = " ".join(memory)
        if (named := _TEST_OF_COMMAND.search(line)) is not None:
            command = named[1]
        elif _OTHER_TEST.search(line) is not None:
            # Rows below the command of another test are of that test.
            command = title = ""
        elif _COLUMNS.match(line) and not title and command:
            title, pairs, columns = _NAMES[command], None, 0
        match = re.search(r"\[ *pairs: *(\d+)", line)
        if match:
            pairs = count_of(match[1], "pairs", number)
        values = numbers_of(line, number) if title else None
        if not values or len(values) < 2:
            continue
        if len(values) < columns:
            yield InputError(
                f"has {len(values)} numbers, expected {columns} as the rows before: it is cut", line=number
            )
            continue
        columns = columns or len(values)
        k = pairs if "multi" in title else 1
        if "latency" in title:
            yield MessageTime(number, "osu_latency", k, values[0], values[1] * 1e-6, "one_way", buffers=buffers)
        elif "bandwidth" in title:
            if values[1] <= 0:
                raise InputError(f"bandwidth is {values[1]:g} MB/s, expected a positive number", line=number)
            both = 2 if "bi-directional" in title else 1
            kind = next((f"{one}_" for one in ("put", "get") if f"mpi_{one}" in title), "")
            path = f"osu_{kind}{'bidirectional' if both == 2 else 'bandwidth'}"
            time_s = both * (k or 1) * values[0] / (values[1] * 1e6)
            yield MessageTime(number, path, k, values[0], time_s, "windowed", is_total=True, buffers=buffers)


def _is_about_gpu_buffers(line: str) -> bool:
    return "on DEVICE" in line and "Buffer" in line


def _read(text: Text) -> Iterator[Reading]:
    reading = message_reading(text, "OSU", _times(text.clean_lines))
    has_gpu_buffers = any(fact.value.in_gpu_memory for fact in reading.facts if fact.quantity == Quantity.MESSAGE_TIME)
    stated = [(number, line) for number, line in text.lines() if _is_about_gpu_buffers(line)]
    titles = [(number, line) for number, line in text.lines() if _OF_GPU.search(line) and has_gpu_buffers]
    for number, line in (stated or titles)[:1]:
        note = f"the test uses buffers in GPU memory: {line.strip('# ')}"
        reading.facts.append(text.fact(Quantity.NOTE, note, number, "OSU"))
    reading.facts += [*wrong_rows(text, "OSU"), *one_host(text, "OSU"), *commands(text, "OSU")]
    yield reading


FORMAT = Format(
    "OSU",
    Content.MESSAGES,
    "osu_latency > osu_latency.out",
    "# OSU MPI Latency Test v7.2",
    lambda text: is_between_processes(text.raw) or _has_columns(text),
    _read,
    "osu.out",
    "fabricast fit",
    _TITLE,
    versions="5 to 7",
    is_per_host=True,
)
