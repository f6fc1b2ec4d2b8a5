"""Reader of ``nvidia-smi --query-gpu=... --format=csv``: models, addresses and links of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.nvidia_smi import ACTIONS, link_number, short_address
from fabricast.sources.text import Format, Reading, Text

#: Quantity of each column that is read.
_COLUMNS = {
    "name": Quantity.GPU_MODEL,
    "gpu_name": Quantity.GPU_MODEL,
    "pci.bus_id": Quantity.GPU_ADDRESS,
    "gpu_bus_id": Quantity.GPU_ADDRESS,
    "pcie.link.gen.max": Quantity.LINK_GENERATION,
    "pcie.link.gen.gpumax": Quantity.GPU_GENERATION,
    "pcie.link.width.max": Quantity.LINK_WIDTH,
    "pcie.link.width.current": Quantity.CURRENT_WIDTH,
}
#: Throttle reasons that are no normal state of a GPU at work, by the end of their column.
_THROTTLES = {
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "hw_slowdown": "HW Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
}
#: Bits of the column clocks_event_reasons.active, and its values: NVML's constants nvmlClocksEventReason.
_BITS = {0x8: "HW Slowdown", 0x20: "SW Thermal Slowdown", 0x40: "HW Thermal Slowdown", 0x80: "HW Power Brake Slowdown"}
_ACTIVE = tuple(f"clocks_{one}_reasons.active" for one in ("throttle", "event"))
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")
#: Columns of errors of the memory that cannot be corrected, since the start of the driver.
_ERRORS = "ecc.errors.uncorrected.volatile."
_REASONS = ("clocks_throttle_reasons.", "clocks_event_reasons.")
#: Column of the action that the driver asks for.
_ACTION = "gpu_recovery_action"
#: Columns of a command whose output has no header, and the comment of a user behind a row.
_COMMAND = re.compile(r"nvidia-smi .{0,80}?--query-gpu=([\w.,]{1,400}).{0,200}?noheader")
#: Another command, whose rows have other columns.
_OTHER = re.compile(r"--query-|nvidia-smi |^\s{0,8}\S{0,60}[$#>] ")
_LONGEST_LINE = 2000
_COMMENT = re.compile(r"\s{1,20}(?:<=|<-|#).*$")
#: Utilisation in percent from which the generation now is that of a GPU at work.
_AT_WORK = 50
_ADDRESSES = ("pci.bus_id", "gpu_bus_id")
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")


def _names(line: str) -> list[str]:
    """Return the names of the columns of a header; none for other lines."""
    if len(line) > _LONGEST_LINE:
        return []
    command = _COMMAND.search(line)
    names = [name.partition(" [")[0].strip() for name in (line if command is None else command[1]).split(",")]
    is_known = any((name in _COLUMNS and "." in name) or name.startswith(_REASONS) or name == _ACTION for name in names)
    is_header = len(names) > 1 and is_known
    return names if is_header or {"index", "name"} <= set(names) else []


def _is_table(text: Text) -> bool:
    raw = text.raw
    words = ("pci.bus_id", "pcie.link.", "_reasons.", _ACTION)
    if not (any(word in raw for word in words) or ("index" in raw and "name" in raw)):
        return False
    return any(_names(line) for _, line in text.lines(lambda line: "," in line))


def _is_row(names: list[str], cells: list[str]) -> bool:
    """Return whether cells are those of a GPU."""
    if "index" in names:
        return cells[names.index("index")].isdigit()
    return any(_ADDRESS.fullmatch(cell) for name, cell in zip(names, cells, strict=True) if name in _ADDRESSES)


def _read(text: Text) -> Iterator[Reading]:
    names: list[str] = []
    columns: set[str] = set()
    facts: list[Fact] = []
    rows: dict[str, dict[str, str]] = {}
    states: dict[tuple[str, str], Fact] = {}
    first = 0
    for number, line in text.lines():
        cells = [cell.strip() for cell in _COMMENT.sub("", line).split(",")]
        if found := _names(line):
            if not {"index", *_ADDRESSES} & set(found):
                raise text.error("has neither the column index nor pci.bus_id: add them to --query-gpu", number)
            names, first = found, first or number
            columns |= set(names)
        elif names and _OTHER.search(line[:_LONGEST_LINE]) is not None:
            names = []
        elif names and len(cells) == len(names) and _is_row(names, cells):
            row = {name: cell for name, cell in zip(names, cells, strict=True) if name in _COLUMNS or name == "index"}
            # Without an index, GPUs have the order of their addresses, which is that of nvidia-smi.
            row.setdefault("index", str(len(rows)))
            if rows.setdefault(row["index"], row) != row:
                raise text.error(f"has another row of GPU {row['index']} that differs", number)
            if rows[row["index"]] is row:
                facts += _of_row(text, row, number)
            for fact in _states(text, dict(zip(names, cells, strict=True)), row["index"], number):
                states.setdefault((row["index"], fact.value), fact)
    facts += states.values()
    if not facts and rows:
        gpus = f"{len(rows)} GPUs" if len(rows) > 1 else "the GPU"
        has_reasons = any(name.startswith(_REASONS) for name in columns)
        what = "throttling" if has_reasons else "recovery action" if _ACTION in columns else ""
        facts += [text.fact(Quantity.NOTE, f"no {what} of {gpus}", first, "nvidia-smi")] if what else []
    if not facts:
        raise text.error("has no row of a GPU below the names of the columns", first)
    yield Reading(facts, line=first)


def _of_row(text: Text, row: dict[str, str], line: int) -> Iterator[Fact]:
    """Yield the facts of one GPU; values such as [N/A] state nothing."""
    for name, quantity in _COLUMNS.items():
        cell = row.get(name, "").partition("[")[0].strip()
        value: str | int
        if quantity is Quantity.GPU_MODEL:
            value = cell
        elif quantity is Quantity.GPU_ADDRESS:
            value = short_address(cell)
        else:
            value = link_number(quantity, cell)
        if value:
            yield text.fact(quantity, value, line, "nvidia-smi", subject=(row["index"],))


def _states(text: Text, row: dict[str, str], gpu: str, line: int) -> Iterator[Fact]:
    """Yield a link at an older generation while its GPU works, and throttling."""
    now, most = (
        link_number(Quantity.LINK_GENERATION, row.get(f"pcie.link.gen.{one}", "")) for one in ("current", "max")
    )
    busy = row.get("utilization.gpu", "").partition(" ")[0]
    if busy.isdigit() and int(busy) >= _AT_WORK and 0 < now < most:
        state = f"its link runs at Gen{now} of Gen{most} under load"
        yield text.fact(Quantity.GPU_STATE, state, line, "nvidia-smi", subject=(gpu,))
    errors = max((int(cell) for name, cell in row.items() if name.startswith(_ERRORS) and cell.isdigit()), default=0)
    if errors:
        state = f"{errors} uncorrectable ECC errors since the start of the driver"
        yield text.fact(Quantity.GPU_STATE, state, line, "nvidia-smi", subject=(gpu,))
    if row.get(_ACTION, "") in ACTIONS:
        state = f"its driver asks for the recovery action '{row[_ACTION]}'"
        yield text.fact(Quantity.GPU_STATE, state, line, "nvidia-smi", subject=(gpu,))
    mask = next((int(row[name], 16) for name in _ACTIVE if _MASK.fullmatch(row.get(name, ""))), 0)
    for bit, active in _BITS.items():
        if mask & bit:
            yield text.fact(Quantity.GPU_STATE, f"{active} is active", line, "nvidia-smi", subject=(gpu,))
    for name, cell in row.items():
        reason = _THROTTLES.get(name.rpartition(".")[2]) if name.startswith(_REASONS) else None
        if reason is not None and cell == "Active":
            yield text.fact(Quantity.GPU_STATE, f"{reason} is active", line, "nvidia-smi", subject=(gpu,))


FORMAT = Format(
    "nvidia-smi --query-gpu",
    Content.GPUS,
    "nvidia-smi --query-gpu=index,name,pci.bus_id,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max "
    "--format=csv > gpus.csv",
    "index, name, pci.bus_id, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max",
    _is_table,
    _read,
    "nvidia_smi.csv",
    versions="columns in any order; index or pci.bus_id is needed",
    is_per_host=True,
)
