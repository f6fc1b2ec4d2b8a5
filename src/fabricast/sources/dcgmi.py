"""Reader of the states that dcgmi prints: NVLinks of GPUs, and failures of health checks and of diag."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import shortened
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "dcgmi"
_TITLE = "NvLink Link Status"
_GPU = re.compile(r"^[\s|]{0,20}gpuId (\d{1,3}):([UDX_ ]{0,80})[\s|]{0,20}$")
_LINKS = re.compile(r"^[\s|]{0,20}([UDX_](?: [UDX_]){0,40})[\s|]{0,20}$")
#: Lines of health checks, in a table or alone.
_HEALTH = re.compile(r"GPU (\d{1,3})'s NvLink link (\d{1,2}) is currently down")
#: Rows of 'dcgmi diag': a test with its result, and results of single GPUs.
_DIAG_ROW = re.compile(r"^\|\s{1,40}([\w][\w /-]{0,40}?)?\s{1,40}\|\s{1,40}(\S.{0,60}?)\s{1,60}\|$")
_FAILED = re.compile(r"Fail - GPUs?: (\d{1,3}(?:, \d{1,3}){0,20})|GPU ?(\d{1,3}): Fail")
#: Title and result of 'dcgmi health -c', with the row of a GPU in its table.
_HEALTH_TITLE = "Health Monitor Report"
_HEALTH_ROW = re.compile(r"^\| (?:-> |GPU ID: )(\d{1,3})\s+\| (Failure|Warning|Healthy)")
_GROUP = re.compile(r"^\| (GPU|NvSwitch|CPU)\s+\|")
_OVERALL = re.compile(r"^\| Overall Health:?[\s|]+(Failure|Warning)")
_EXPLAINS = ("Warning", "Info", "Error")
_LONGEST_REASON = 160


def _is_output(text: Text) -> bool:
    if _TITLE in text.raw or _HEALTH_TITLE in text.raw or _HEALTH.search(text.raw) is not None:
        return True
    return any(
        _DIAG_ROW.match(line) and ("Pass" in line or "Fail" in line) for _, line in text.lines(lambda line: "|" in line)
    )


def _read(text: Text) -> Iterator[Reading]:
    tables = list(_tables(text))
    failed = list(_of_diag(text))
    facts = [*(fact for links in tables for fact in _of_status(text, links)), *_of_health(text), *failed]
    if not facts and _TITLE not in text.raw:
        test = "health" if _HEALTH_TITLE in text.raw else "diag"
        facts.append(text.fact(Quantity.NOTE, f"dcgmi {test} states no failure", 0, _PROGRAM))
    if not facts and not any(tables):
        raise text.error("has no GPU with NVLinks, expected output of 'dcgmi nvlink --link-status'")
    if not facts:
        facts.append(text.fact(Quantity.NOTE, "all NVLinks of the GPUs are up (dcgmi)", 0, _PROGRAM))
    yield Reading(facts)


def _tables(text: Text) -> Iterator[dict[str, tuple[int, str]]]:
    """Yield line and letters of each GPU, for each table of 'dcgmi nvlink --link-status': of hosts, or of a time."""
    links: dict[str, tuple[int, str]] = {}
    gpu = ""
    for number, line in text.lines():
        if _TITLE in line:
            yield links
            links, gpu = {}, ""
        elif (match := _GPU.match(line)) is not None:
            gpu = match[1]
            if match[2].strip():
                links[gpu] = (number, match[2])
        elif gpu and (match := _LINKS.match(line)) is not None:
            links.setdefault(gpu, (number, match[1]))
        elif line.strip():
            gpu = ""
    yield links


def _of_status(text: Text, links: dict[str, tuple[int, str]]) -> Iterator[Fact]:
    """Yield GPUs with fewer links that work than others; equal ones of all GPUs may be those of bridges."""
    most = max((letters.count("U") for _, letters in links.values()), default=0)
    for gpu, (number, letters) in links.items():
        down, up = letters.count("D"), letters.count("U")
        if down and up < most:
            state = f"{up} of {down + up} NVLinks work, {most} on other GPUs"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))
    down_everywhere = [gpu for gpu, (_, letters) in links.items() if "D" in letters and letters.count("U") == most]
    if down_everywhere:
        yield _all_down(text, down_everywhere, links[down_everywhere[0]][0])


def _of_health(text: Text) -> Iterator[Fact]:
    """Yield the links that health checks call down; all of each GPU may mean that there is no bridge."""
    down: dict[str, set[str]] = {}
    lines: dict[str, int] = {}
    for number, line in text.lines(lambda line: "NvLink" in line):
        if (match := _HEALTH.search(line)) is not None:
            down.setdefault(match[1], set()).add(match[2])
            lines.setdefault(match[1], number)
    numbers = {tuple(sorted(map(int, links))) for links in down.values()}
    if len(numbers) == 1 and all(one == tuple(range(len(one))) for one in numbers):
        yield _all_down(text, list(down), next(iter(lines.values())))
        return
    yield from _of_health_table(text, set(down))
    for gpu, links in down.items():
        state = f"NVLink {', '.join(sorted(links, key=int))} is down (dcgmi health)"
        yield text.fact(Quantity.GPU_STATE, state, lines[gpu], _PROGRAM, subject=(gpu,))


def _of_health_table(text: Text, known: set[str]) -> Iterator[Fact]:
    """Yield other GPUs with a failure or warning, with the reason that the table prints on several lines."""
    rows: list[tuple[int, str, str, list[str]]] = []
    group, overall = "GPU", (0, "")
    for number, line in text.lines(lambda line: "|" in line) if _HEALTH_TITLE in text.raw else ():
        if (match := _GROUP.match(line)) is not None:
            group = match[1]
        elif (match := _OVERALL.match(line)) is not None:
            overall = number, match[1].lower()
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if (match := _HEALTH_ROW.match(line)) is not None:
            rows.append((number, match[1] if group == "GPU" else f"{group} {match[1]}", match[2], []))
        elif rows and len(cells) == 2 and not cells[0] and cells[1]:
            rows[-1][3].append(_cell(line))
    rows = [row for row in rows if row[2] != "Healthy"]
    if overall[0] and not rows and not known:
        state = f"{overall[1]} of dcgmi health, whose device the file does not name"
        yield text.fact(Quantity.GPU_STATE, state, overall[0], _PROGRAM, subject=("a GPU or NVSwitch",))
    for number, gpu, result, words in rows:
        if gpu not in known:
            reason = shortened(_joined(words), _LONGEST_REASON)
            state = f"{result.lower()} of dcgmi health{f': {reason}' if reason else ''}"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))


def _cell(line: str) -> str:
    """Return the text of the last column with the blanks that belong to it."""
    return line.rstrip().rstrip("|").rpartition("|")[2].removeprefix(" ")


def _joined(cells: list[str]) -> str:
    """Return the text of cells; those that fill their column, or several of the longest, end within a word."""
    lengths = [len(cell.rstrip()) for cell in cells]
    longest = max(lengths, default=0)
    is_cut = [
        length == longest and (lengths.count(longest) > 1 or len(cell.removesuffix(" ")) == length)
        for cell, length in zip(cells, lengths, strict=True)
    ]
    parts = [cell.rstrip() if cut else f"{cell.rstrip()} " for cell, cut in zip(cells, is_cut, strict=True)]
    return " ".join("".join(parts).split())


def _of_diag(text: Text) -> Iterator[Fact]:
    """Yield GPUs that fail a test of 'dcgmi diag', with the reason that it prints."""
    failed: list[tuple[int, list[str], str]] = []
    reasons: list[list[str]] = []
    test, is_reason = "", False
    for number, line in text.lines(lambda line: "|" in line):
        if (match := _DIAG_ROW.match(line)) is None:
            is_reason = False
            continue
        if match[1] and match[1] not in _EXPLAINS:
            test = match[1]
        is_reason = match[1] in _EXPLAINS or (is_reason and not match[1])
        gpus = _FAILED.search(match[2])
        if gpus is not None:
            failed.append((number, (gpus[1] or gpus[2]).split(", "), test))
            reasons.append([])
        elif is_reason and reasons:
            reasons[-1].append(_cell(line))
    for (number, gpus_of_test, name), words in zip(failed, reasons, strict=True):
        reason = shortened(_joined(words), _LONGEST_REASON)
        state = f"fails the test '{name}' of dcgmi diag{f': {reason}' if reason else ''}"
        for gpu in gpus_of_test:
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))


def _all_down(text: Text, gpus: list[str], line: int) -> Fact:
    """Return the note that links are down: without links, as cards without a bridge, nothing is wrong."""
    words = (
        f"dcgmi states NVLinks of GPU {', '.join(gpus)} as down: normal for cards without an NVLink bridge; otherwise "
        "check the fabric manager, 'nvidia-smi nvlink -s' and 'dmesg | grep Xid'"
    )
    return text.fact(Quantity.NOTE, words, line, _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "dcgmi nvlink --link-status > dcgmi.txt",
    "gpuId 0: U U U U U U U U U U U U U U U U U U",
    _is_output,
    _read,
    "dcgmi.txt",
    versions="`nvlink --link-status`, NVLinks of `health`, failures of `diag`",
    is_per_host=True,
)
