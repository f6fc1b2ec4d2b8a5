"""Reader of ``nvidia-smi``, ``nvidia-smi -q`` and ``nvidia-smi -L``: models, addresses and links of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.core.units import PCIE_WIDTHS
from fabricast.sources.text import Format, Reading, Text

_ADDRESS = r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
QUERY = "==NVSMI LOG=="
#: Parts of a query that users quote, without its beginning.
_FRAGMENT = re.compile(
    r"^[ \t]*(?:Fabric[ \t]*\r?\n[ \t]*State|BAR1 Memory Usage[ \t]*\r?\n[ \t]*Total"
    r"|Clocks (?:Throttle|Event) Reasons[ \t]*\r?\n[ \t]*Idle|Remapped Rows[ \t]*\r?\n[ \t]*Correctable Error)[ \t]*:",
    re.MULTILINE,
)
#: Field or title of a section.
_PART_LINE = re.compile(r"\s*[A-Z][\w ()/-]{1,50}?\s*(?::\s*\S.{0,80})?$")
#: GPU of a part that names none, and sections of counters of errors.
_SOME_GPU, _COUNTERS = "a GPU", ("ECC Errors", "Remapped Rows", "Retired Pages", "Replays Since Reset")
WITHOUT_COUNTERS, WITHOUT_REASONS = "no counters of errors are reported", "no reasons for reduced clocks are reported"
_UNREADY = re.compile(r"\s*State\s*: In Progress")
# Lengths are bounded, so that a long line takes linear time.
_TABLE = re.compile(rf"^\|\s+(\d{{1,3}})\s+(\S.{{0,60}}?)\s{{1,60}}(?:On|Off|N/A)\s*\|\s*{_ADDRESS}\s")
#: Last cell of the first row of a GPU.
_TABLE_ERRORS = re.compile(r"\|\s{1,40}(\d{1,9})\s{0,9}\|\s*$")
#: The number of a GPU may be left out of what a user publishes.
_LIST = re.compile(r"^GPU (\d{1,3}): (.{1,100}?) \(UUID: [^)]{0,60}\)?")
#: The same without identifier, above counters of NVLinks.
_HEADING = re.compile(r"^GPU (\d{1,3}): (\S.{1,100}?)(?: \(UUID: |$)")
#: First GPU of torch.utils.collect_env; lines "GPU 1: NVIDIA H100" follow.
_OF_PYTORCH = re.compile(r"^GPU models and configuration: (?=GPU 0: )")
_MODEL = re.compile(r"^GPU (\d{1,3}): (\S.{1,99})$")
_LIMIT = re.compile(r"\d{1,4}W\s{0,3}/\s{0,3}(\d{1,4})W")
_NVLINK = re.compile(r"^\s+Link (\d{1,2}): (\S+)")
_DEVICE = re.compile(rf"^GPU {_ADDRESS}\s*$")
_FIELD = re.compile(r"^\s+(Product Name|Max|Current|Device Max)\s+: (.{1,100}?)\s*$")
_WATTS = re.compile(r"([0-9]{1,6}(?:\.[0-9]+)?) W")
#: Number of repeated PCIe packets from which they are no accident.
_MANY_REPLAYS = 100
#: Length of lines of a report, in characters.
_LONGEST_LINE = 200
#: Error about a GPU that does not answer.
_LOST = re.compile(rf"Unable to de(?:termine|tect) the device handle for (?:gpu|GPU) ?(?:\d{{1,3}}: ?)?{_ADDRESS}")
#: Warning below the table.
_INFOROM = re.compile(rf"infoROM is corrupted at gpu {_ADDRESS}", re.IGNORECASE)
#: Driver that cannot be used: state by the words of nvidia-smi.
_UNUSABLE = {
    "No devices were found": "the driver finds no GPU",
    "Driver/library version mismatch": "the driver in the kernel and its libraries have different versions",
    "couldn't communicate with the NVIDIA driver": "the driver is not loaded",
    "Failed to initialize NVML: Unknown Error": "the container has lost its access to the GPUs (unknown error of NVML)",
}
#: Values that the driver cannot read.
_UNREADABLE = re.compile(r"(?:^\||\s)ERR!")
#: Counters of 'nvidia-smi nvlink -e', and the number from which errors are no accident.
_NVLINK_ERRORS = re.compile(r"^\s*Link (\d{1,2}): (\w[\w ]{2,30}?) ?(?:Errors?|Error Counter): (\d{1,18})")
_MANY_NVLINK_ERRORS = 100
_OF_LINKS = ("Replay Errors: ", "Recovery Errors: ", "CRC Errors: ")
_FABRIC_STATUS = re.compile(r"^\s*Status\s+: (\S.{0,60}?)\s*$")
#: States of the fabric (NVSwitches) of a GPU that is ready, and of one without fabric.
_FABRIC = ("Success", "N/A")
#: Throttle reasons that are no normal state of a GPU at work.
_THROTTLES = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
#: Counters of the time with clocks that heat or lack of power reduced, and the beginning of the note about it.
_THERMAL, _SPENT = ("SW Thermal Slowdown", "HW Thermal Slowdown", "HW Power Braking"), re.compile(r"(\d{1,18}) us")
EARLIER = "its clocks were reduced since the start of the driver for"
#: Recovery actions of a GPU that needs one.
ACTIONS = ("Reset", "Reboot", "Drain P2P", "Drain and Reset")
#: Lines about the health of the fabric that are no normal ones, in small letters.
_UNHEALTHY = (
    ("bandwidth", "degraded"),
    ("route recovery in progress", "true"),
    ("route unhealthy", "true"),
    ("access timeout recovery", "true"),
    ("summary", "unhealthy"),
)
#: Flags of a memory or a part of the chip that is worn out or waits for its repair.
_WORN = ("SRAM Threshold Exceeded", "Channel Repair Pending", "TPC Repair Pending")
#: Throttle reason, and note about it, which is usual under full load.
_POWER_CAP = re.compile(r"\s*SW Power Cap\s*: Active\s*$")
CAPPED = "the power limit reduces the clocks (SW Power Cap)"
_TOTAL = re.compile(r"\s+Total\s+: (\d{1,9}) MiB")
_SMALL_WINDOW_MIB = 256
_DRIVER = re.compile(r"Driver Version\s{0,40}: (\d[\w.]{2,20})")
_ATTACHED = re.compile(r"Attached GPUs\s+: (\d{1,3})")
#: Share of the lines of other reports below which a report is cut.
_CUT = 0.5
_NUMBER = re.compile(r"(\d{1,2})x?")
_LATEST_GENERATION = 6
_MOST_LISTED = 3
#: Quantities by section and field. The generation now depends on the load.
_LINKS = {
    ("PCIe Generation", "Max"): Quantity.LINK_GENERATION,
    ("PCIe Generation", "Device Max"): Quantity.GPU_GENERATION,
    ("Link Width", "Max"): Quantity.LINK_WIDTH,
    ("Link Width", "Current"): Quantity.CURRENT_WIDTH,
}
#: Utilisation in percent from which a GPU works, and its performance states at work.
_AT_WORK, _WORKING_STATES = 50, ("P0", "P1", "P2", "P3")
_WIDTHS = (Quantity.LINK_WIDTH, Quantity.CURRENT_WIDTH)


def _is_report(text: Text) -> bool:
    if QUERY in text.raw or "| NVIDIA-SMI " in text.raw:
        return True
    if "GPU models and configuration: GPU 0: " in text.raw or _FRAGMENT.search(text.raw) is not None:
        return True
    if _LOST.search(text.raw) is not None or any(words in text.raw for words in _UNUSABLE):
        return True
    if " (UUID: " in text.raw and any(_LIST.match(line) for _, line in text.lines()):
        return True
    return any(words in text.raw for words in _OF_LINKS) and any(_HEADING.match(line) for _, line in text.lines())


def _read(text: Text) -> Iterator[Reading]:
    if QUERY in text.raw:
        yield read_query(text)
        return
    facts = [*_of_lines(text), *_of_any(text), *_unready_fabric(text), *_small_windows(text)]
    if _FRAGMENT.search(text.raw) is not None:
        known = {fact.value for fact in facts}
        facts += [fact for fact in (*_states(text, _SOME_GPU), *_capped(text)) if fact.value not in known]
        facts = facts or [text.fact(Quantity.NOTE, "this part of nvidia-smi -q states no fault", 0, "nvidia-smi")]
    if not facts and any(words in text.raw for words in _OF_LINKS):
        note = f"no NVLink has {_MANY_NVLINK_ERRORS} errors of a kind or more since its start"
        facts = [text.fact(Quantity.NOTE, note, 0, "nvidia-smi")]
    yield Reading(_not_empty(facts, text), program="nvidia-smi")


def read_query(text: Text) -> Reading:
    """Return what ``nvidia-smi -q`` states."""
    facts = _not_empty([*_of_query(text), *_of_any(text)], text)
    missing = [] if any(words in text.raw for words in _COUNTERS) else [WITHOUT_COUNTERS]
    missing += [] if " Reasons" in text.raw else [WITHOUT_REASONS]
    facts += [text.fact(Quantity.NOTE, words, 0, "nvidia-smi") for words in missing]
    return Reading([*facts, *_left_out(text)], list(_cut(text)), program="nvidia-smi -q")


def _of_any(text: Text) -> Iterator[Fact]:
    """Yield what each form of the output can state."""
    yield from _lost(text)
    yield from _unusable(text)
    yield from _nvlink_errors(text)
    yield from _driver(text)


def _not_empty(facts: list[Fact], text: Text) -> list[Fact]:
    """Return facts; no facts are an error."""
    if not facts:
        raise text.error("has no GPU, expected output of 'nvidia-smi -q', 'nvidia-smi' or 'nvidia-smi -L'")
    return facts


_ALL_INACTIVE = "all links are inActive"
#: Models whose boards always connect the NVLinks, unlike cards with an optional bridge.
_ALWAYS_LINKED = re.compile(r"SXM|H100 80GB HBM3|\bB[23]00\b|\bH200\b(?! NVL)|\bH20\b")
#: Lines about processes; their number differs between GPUs.
_PROCESS = re.compile(r"\s{6,}(?:GPU instance ID|Compute instance ID|Process ID|Type|Name|Used GPU Memory)\s{1,60}:")


def _reports(text: Text) -> list[tuple[int, int]]:
    """Return line and number of written lines of the report of each GPU."""
    reports: list[tuple[int, int]] = []
    for number, line in text.lines():
        if _DEVICE.match(line):
            reports.append((number, 0))
        elif reports and line.strip() and _PROCESS.match(line) is None:
            reports[-1] = reports[-1][0], reports[-1][1] + 1
    return reports


def _cut(text: Text) -> Iterator[InputError]:
    """Yield that the report of the last GPU ends early: it has few lines of those of the others."""
    *others, last = _reports(text) or [(0, 0)]
    if others and last[1] < _CUT * median(count for _, count in others):
        yield text.error("the report of the last GPU ends before those of the others: the file is cut", last[0])


def _left_out(text: Text) -> Iterator[Fact]:
    """Yield the note that not all GPUs of the machine are reported, by a choice (-i) or since the file is cut."""
    reports = len(_reports(text))
    for number, line in text.lines(lambda line: "Attached GPUs" in line):
        if (match := _ATTACHED.match(line)) is None:
            continue
        if reports < int(match[1]):
            words = f"reports of {reports} of the {match[1]} attached GPUs"
            yield text.fact(Quantity.NOTE, words, number, "nvidia-smi")
        return


def _lost(text: Text) -> Iterator[Fact]:
    """Yield GPUs that the driver cannot reach, or whose configuration it cannot read."""
    for number, line in text.lines():
        if (match := _INFOROM.search(line)) is not None:
            state = "its infoROM is corrupted"
            yield text.fact(Quantity.GPU_STATE, state, number, "nvidia-smi", subject=(short_address(match[1]),))
        elif (match := _LOST.search(line)) is not None:
            is_lost = "lost" in line or "Unknown Error" not in line
            reason = "fallen off the bus" if is_lost else "unknown error"
            state = f"cannot be reached by the driver ({reason})"
            yield text.fact(Quantity.GPU_STATE, state, number, "nvidia-smi", subject=(short_address(match[1]),))


def _driver(text: Text) -> Iterator[Fact]:
    """Yield the version of the driver, and the number of GPUs with MIG, which hosts of a cluster have alike."""
    divided, first, section = 0, 0, ""
    for number, line in text.lines(lambda line: "Driver Version" in line or "M" in line or "Current" in line):
        if (match := _DRIVER.search(line)) is not None:
            yield text.fact(Quantity.OF_HOST, ("driver version", match[1]), number, "nvidia-smi")
        elif ":" not in line:
            section = line.strip()
        elif section == "MIG Mode" and line.split() == ["Current", ":", "Enabled"]:
            divided, first = divided + 1, first or number
    if divided:
        words = f"{divided} GPUs are" if divided > 1 else "a GPU is"
        note = f"{words} divided (MIG): parts of a GPU copy directly to no other one"
        yield text.fact(Quantity.NOTE, note, first, "nvidia-smi")


def _unusable(text: Text) -> Iterator[Fact]:
    """Yield why the driver cannot be used."""
    for number, line in text.lines():
        state = next((state for words, state in _UNUSABLE.items() if words in line), "")
        if state:
            yield text.fact(Quantity.CAUSE, state, number, "nvidia-smi", subject=("no_driver",))
            return


def _nvlink_errors(text: Text) -> Iterator[Fact]:
    """Yield GPUs whose NVLinks had many errors."""
    gpu = ""
    counts: dict[str, dict[str, int]] = {}
    lines: dict[str, int] = {}
    for number, line in text.lines():
        if (match := _HEADING.match(line)) is not None:
            gpu = match[1]
        elif gpu and (match := _NVLINK_ERRORS.match(line)) is not None and int(match[3]) >= _MANY_NVLINK_ERRORS:
            counts.setdefault(gpu, {})[f"NVLink {match[1]} {int(match[3]):,} {match[2]} errors"] = int(match[3])
            lines.setdefault(gpu, number)
    for gpu, of_gpu in counts.items():
        worst = sorted(of_gpu, key=lambda words: -of_gpu[words])
        state = f"its NVLinks have errors since their start: {listed(worst, _MOST_LISTED)}"
        yield text.fact(Quantity.GPU_STATE, state, lines[gpu], "nvidia-smi", subject=(gpu,))


def _of_query(text: Text) -> Iterator[Fact]:
    """Yield the fields of each GPU; later reports repeat them."""
    numbers: dict[str, str] = {}
    address = section = ""
    for line_number, line in text.lines():
        if (match := _DEVICE.match(line)) is not None:
            address = short_address(match[1]) if short_address(match[1]) not in numbers else ""
            if address:
                numbers[address] = str(len(numbers))
                yield _fact(text, Quantity.GPU_ADDRESS, address, line_number, numbers[address])
        elif address and (match := _FIELD.match(line)) is not None:
            quantity, value = _field(section, match[1], match[2])
            if quantity is not None:
                yield _fact(text, quantity, value, line_number, numbers[address])
        elif line[:1].isspace() and ":" not in line:
            section = line.strip()
    yield from _states(text)
    yield from _capped(text)
    yield from _small_windows(text)


def _states(text: Text, part_of: str = "") -> Iterator[Fact]:
    """Yield error counters, throttle reasons and power limits that differ from those of a healthy GPU.

    `part_of` is the name of the GPU of a part of a report that names none.
    """
    numbers = {part_of: part_of} if part_of else {}
    address = part_of

    def name_of(address: str) -> str:
        return part_of or f"GPU {numbers[address]}"

    sections: list[tuple[int, str]] = []
    watts: dict[str, float] = {}
    known: set[tuple[str, str]] = set()
    load = _Load()
    for line_number, line in _part(text) if part_of else text.lines():
        if (match := _DEVICE.match(line)) is not None:
            address, sections, watts, load = short_address(match[1]), [], {}, _Load()
            numbers.setdefault(address, str(len(numbers)))
            continue
        # The sections of a part may begin its lines.
        if not address or not (part_of or line[:1].isspace()) or len(line) > _LONGEST_LINE:
            continue
        indentation = len(line) - len(line.lstrip())
        name, colon, value = (part.strip() for part in line.partition(":" if part_of else " : "))
        # Without indentation, fields follow their section.
        is_flat = bool(part_of and colon)
        while sections and (sections[-1][0] > indentation or (sections[-1][0] == indentation and not is_flat)):
            sections.pop()
        if not colon:
            sections.append((indentation, name))
            continue
        titles = [title for _, title in sections]
        load.add(titles[-1] if titles else "", name, value, line_number)
        if name.startswith("Replays Since Reset") and value.isdigit() and 0 < int(value) < _MANY_REPLAYS:
            note = f"{name_of(address)}: {value} PCIe replays since the last reset, fewer than {_MANY_REPLAYS}"
            yield text.fact(Quantity.NOTE, note, line_number, "nvidia-smi")
        spent = _SPENT.fullmatch(value) if name in _THERMAL and titles and "Counters" in titles[-1] else None
        if spent is not None and int(spent[1]):
            note = f"{name_of(address)}: {EARLIER} {int(spent[1]) / 1e6:.3g} s ({name})"
            yield text.fact(Quantity.NOTE, note, line_number, "nvidia-smi")
        if titles[-1:] == ["Remapped Rows"] and name == "Uncorrectable Error" and value.isdigit() and int(value):
            rows = f"{value} rows" if int(value) > 1 else "a row"
            note = f"{name_of(address)}: {rows} of its memory remapped after uncorrectable errors, no new fault"
            yield text.fact(Quantity.NOTE, note, line_number, "nvidia-smi")
        for state, place in ((_state(titles, name, value, watts), line_number), (load.state, load.line)):
            if state and (address, state) not in known:
                known.add((address, state))
                yield _fact(text, Quantity.GPU_STATE, state, place, numbers[address])


def _part(text: Text) -> Iterator[tuple[int, str]]:
    """Yield the lines of quoted parts: from the title of a section to the first line that is no field or title."""
    is_inside = False
    lines = list(text.lines())
    for place, (number, line) in enumerate(lines):
        below = lines[place + 1][1] if place + 1 < len(lines) else ""
        is_inside = _FRAGMENT.match(f"{line}\n{below}") is not None or (
            is_inside and (_PART_LINE.match(line) is not None)
        )
        if is_inside:
            yield number, line


def _capped(text: Text) -> Iterator[Fact]:
    """Yield the note that the power limit reduces clocks, with the number of GPUs."""
    lines: dict[str, int] = {}
    address = ""
    for number, line in text.lines():
        if (match := _DEVICE.match(line)) is not None:
            address = match[1]
        elif _POWER_CAP.match(line):
            lines.setdefault(address, number)
    if lines:
        gpus = f"{len(lines)} GPUs" if len(lines) > 1 else "a GPU"
        words = f"{CAPPED} of {gpus}, as usual under full load"
        yield text.fact(Quantity.NOTE, words, min(lines.values()), "nvidia-smi")


def _unready_fabric(text: Text) -> Iterator[Fact]:
    """Yield that NVLink is not ready, from a part of a query that names no GPU."""
    section = ""
    for number, line in text.lines():
        if section == "Fabric" and _UNREADY.match(line) is not None:
            yield _fact(text, Quantity.GPU_STATE, _state([section], "State", "In Progress", {}), number, "a GPU")
            return
        status = _FABRIC_STATUS.match(line) if section == "Fabric" else None
        if status is not None and (state := _state([section], "Status", status[1], {})):
            yield _fact(text, Quantity.GPU_STATE, state, number, "a GPU")
            return
        section = line.strip() if ":" not in line else section


def _small_windows(text: Text) -> Iterator[Fact]:
    """Yield the note that the address space of GeForce cards (BAR1) is small, which modified drivers need.

    Other cards copy directly without a large one.
    """
    section, sizes = "", dict[int, list[int]]()
    # A part of a query that names no model is quoted for this size.
    is_part = QUERY not in text.raw
    is_geforce = is_part
    for number, line in text.lines(lambda line: "BAR1" in line or "Total" in line or "Product Name" in line):
        if "Product Name" in line:
            is_geforce = "GeForce" in line
        section = line.strip() if ":" not in line else section
        if section == "BAR1 Memory Usage" and (match := _TOTAL.match(line)) is not None:
            if is_geforce:
                sizes.setdefault(int(match[1]), []).append(number)
            section = ""
    small = [line for size, lines in sizes.items() if size <= _SMALL_WINDOW_MIB for line in lines]
    if small:
        count = f"{len(small)} GPUs" if len(small) > 1 else "a GPU"
        words = f"BAR1 of {count} has {_SMALL_WINDOW_MIB} MiB (without Resizable BAR), too little for drivers that are "
        words += "modified for direct copies"
        yield text.fact(Quantity.NOTE, words, min(small), "nvidia-smi")
    elif is_part and sizes:
        counts = (f"{size} MiB on {len(lines)} GPU{'s' if len(lines) > 1 else ''}" for size, lines in sizes.items())
        words = f"BAR1 is {', '.join(counts)}{'; sizes differ' if len(sizes) > 1 else ''}"
        yield text.fact(Quantity.NOTE, words, min(min(lines) for lines in sizes.values()), "nvidia-smi")


@dataclass
class _Load:
    """Generation of the link of a GPU while it works; idle GPUs reduce it."""

    current: int = 0
    highest: int = 0
    line: int = 0
    is_fast: bool = False
    is_busy: bool = False

    def add(self, section: str, name: str, value: str, line: int) -> None:
        """Add a field of the report."""
        if section == "PCIe Generation" and name in ("Max", "Current") and value.isdigit():
            if name == "Max":
                self.highest = int(value)
            else:
                self.current, self.line = int(value), line
        elif name == "Performance State":
            self.is_fast = value in _WORKING_STATES
        elif name in ("Gpu", "GPU") and (match := re.fullmatch(r"(\d{1,3}) %", value)) is not None:
            self.is_busy = int(match[1]) >= _AT_WORK

    @property
    def state(self) -> str:
        """Fault of the link; empty for links at their highest generation and idle GPUs."""
        if not (self.is_fast and self.is_busy and 0 < self.current < self.highest):
            return ""
        return f"its link runs at Gen{self.current} of Gen{self.highest} under load"


def _state(sections: list[str], name: str, value: str, watts: dict[str, float]) -> str:
    """Return what a line says about an unhealthy state; empty for normal ones."""
    above = " ".join(sections)
    count = int(value) if re.fullmatch("[0-9]{1,12}", value) else 0
    if name in _THROTTLES and value == "Active" and "Reasons" in above:
        return f"{name} is active"
    if count and "ECC Errors" in above and "Volatile" in above and "ncorrectable" in name:
        return f"{count} uncorrectable ECC errors since the start of the driver ({name})"
    if name.startswith("Replays Since Reset") and count >= _MANY_REPLAYS:
        return f"{count} PCIe replays since the last reset"
    if name == "GPU Recovery Action" and value in ACTIONS:
        return f"its driver asks for the recovery action '{value}'"
    if name in _WORN and value == "Yes":
        return f"{name} is Yes"
    if sections and sections[-1] == "Fabric" and name == "State" and value == "In Progress":
        return "fabric state is In Progress: NVLink is not ready"
    if sections and sections[-1] == "Fabric" and name == "Status" and value not in _FABRIC:
        return f"fabric state is {value}: NVLink is not ready"
    if "Fabric" in sections and (name.lower(), value.lower()) in _UNHEALTHY:
        return f"fabric health: {name} is {value}, NVLink is slow or not ready"
    if value == "Yes" and ("Remapped Rows" in above or "Retired Pages" in above):
        return f"{sections[-1]}: {name}"
    power = _WATTS.fullmatch(value)
    if "Power Readings" in above and power is not None and "Power Limit" in name:
        watts[name] = float(power[1])
        limit = watts.get("Current Power Limit", watts.get("Power Limit"))
        default = watts.get("Default Power Limit")
        if name == "Default Power Limit" and limit is not None and default is not None and limit < default:
            return f"power limit {limit:g} W of {default:g} W"
    return ""


def _fact(text: Text, quantity: Quantity, value: object, line: int, number: str) -> Fact:
    return text.fact(quantity, value, line, "nvidia-smi", subject=(number,))


def short_address(address: str) -> str:
    """Return a PCI address with four digits of the domain, as lspci prints it."""
    domain, *rest = address.lower().split(":")
    return ":".join([domain.lstrip("0").rjust(4, "0"), *rest]) if rest else address


def _field(section: str, name: str, value: str) -> tuple[Quantity | None, object]:
    """Return quantity and value of a field; no quantity for other fields."""
    if name == "Product Name":
        return Quantity.GPU_MODEL, value
    quantity = _LINKS.get((section, name))
    number = 0 if quantity is None else link_number(quantity, value)
    return (quantity if number else None), number


def link_number(quantity: Quantity, text: str) -> int:
    """Return a generation or width such as ``16x``; 0 if the text has no possible one."""
    number = int(match[1]) if (match := _NUMBER.fullmatch(text)) is not None else 0
    is_valid = number in PCIE_WIDTHS if quantity in _WIDTHS else 1 <= number <= _LATEST_GENERATION
    return number if is_valid else 0


def _of_lines(text: Text) -> Iterator[Fact]:
    """Yield the GPUs of the table of nvidia-smi, or else of the list of -L; later tables repeat them."""
    tables: dict[int, tuple[int, str, str]] = {}
    names: dict[int, tuple[int, str, str]] = {}
    limits: dict[int, tuple[int, int]] = {}
    links: dict[int, dict[int, bool]] = {}
    lines: dict[int, int] = {}
    unreadable: dict[int, int] = {}
    memory: dict[int, tuple[int, int]] = {}
    #: GPUs all of whose links are inactive, which the program does not list one by one.
    dark: dict[int, int] = {}
    last = -1
    for line_number, gpu, model in _models_of_pytorch(text):
        names.setdefault(gpu, (line_number, model, ""))
    for line_number, line in text.lines():
        if (match := _TABLE.match(line)) is not None:
            last = int(match[1])
            # A name that the driver cannot read is that of the others, or unknown.
            name = "" if match[2] == "ERR!" else match[2]
            tables.setdefault(last, (line_number, name, short_address(match[3])))
            if not name:
                unreadable.setdefault(last, line_number)
            if (errors := _TABLE_ERRORS.search(line)) is not None and int(errors[1]):
                memory.setdefault(last, (line_number, int(errors[1])))
        elif last >= 0 and last not in unreadable and _UNREADABLE.search(line):
            unreadable[last] = line_number
        elif last >= 0 and (match := _LIMIT.search(line)) is not None:
            limits.setdefault(last, (line_number, int(match[1])))
        elif last >= 0 and _NVLINK_ERRORS.match(line) is None and (match := _NVLINK.match(line)) is not None:
            links.setdefault(last, {}).setdefault(int(match[1]), match[2] != "<inactive>")
            if match[2] == "<inactive>":
                lines.setdefault(last, line_number)
        elif last >= 0 and _ALL_INACTIVE in line:
            dark.setdefault(last, line_number)
        elif (match := _LIST.match(line)) is not None:
            last = int(match[1])
            names.setdefault(last, (line_number, match[2], ""))
    # Numbers count the GPUs of the report, which may be some of the machine's.
    for place, (_, (line_number, name, address)) in enumerate(sorted((tables or names).items())):
        if address:
            yield _fact(text, Quantity.GPU_ADDRESS, address, line_number, str(place))
        if name:
            yield _fact(text, Quantity.GPU_MODEL, name, line_number, str(place))
    places = {number: str(place) for place, number in enumerate(sorted(tables or names))}
    highest = max((limit for _, limit in limits.values()), default=0)
    if len({found[1] for found in tables.values() if found[1]}) == 1:
        for number, (line_number, limit) in limits.items():
            if limit < highest:
                state = f"power limit {limit} W of {highest} W"
                yield _fact(text, Quantity.GPU_STATE, state, line_number, _named(number, tables or names))
    for number, (line_number, count) in memory.items():
        state = f"{count} uncorrectable ECC errors since the start of the driver (Volatile Uncorr. ECC)"
        yield _fact(text, Quantity.GPU_STATE, state, line_number, _named(number, tables or names))
    for number, line_number in unreadable.items():
        state = "its driver cannot read its state (ERR!)"
        yield _fact(text, Quantity.GPU_STATE, state, line_number, _named(number, tables or names))
    for number, one in links.items():
        yield _fact(text, Quantity.NVLINKS, sum(one.values()), lines.get(number, 0), places[number])
    yield from _inactive_links(text, links, lines, tables or names)
    linked = _always_linked(text, tables or names)
    for number, line_number in dark.items():
        if number in linked:
            state = "all its NVLinks are inactive"
            yield _fact(text, Quantity.GPU_STATE, state, line_number, _named(number, tables or names))
        else:
            note = f"GPU {number}: all its NVLinks are inactive, as in a virtual machine or without a bridge"
            yield text.fact(Quantity.NOTE, note, line_number, "nvidia-smi")


def _always_linked(text: Text, gpus: dict[int, tuple[int, str, str]]) -> list[int]:
    """Return the GPUs whose boards always connect the NVLinks.

    A machine with one such GPU may be virtual, bridges connect some cards only, and instances (MIG) have no links. A
    number above 0 shows that there are more GPUs than those listed.
    """
    boards = [number for number, found in gpus.items() if _ALWAYS_LINKED.search(found[1]) is not None]
    return boards if (len(boards) > 1 or max(boards, default=0) > 0) and "MIG" not in text.raw else []


def _models_of_pytorch(text: Text) -> Iterator[tuple[int, int, str]]:
    """Yield line, number and model of each GPU that torch.utils.collect_env lists."""
    is_list = False
    for line_number, line in text.lines():
        begins = _OF_PYTORCH.match(line)
        match = _MODEL.match(line[begins.end() :] if begins is not None else line) if begins or is_list else None
        is_list = match is not None
        if match is not None:
            yield line_number, int(match[1]), match[2].strip()


def _named(number: int, gpus: dict[int, tuple[int, str, str]]) -> str:
    """Return the name of a GPU in its states: its address in a list without GPUs before it, else its number."""
    return str(number) if sorted(gpus).index(number) == number else gpus[number][2] or str(number)


def _inactive_links(
    text: Text, links: dict[int, dict[int, bool]], lines: dict[int, int], gpus: dict[int, tuple[int, str, str]]
) -> Iterator[Fact]:
    """Yield GPUs with inactive NVLinks: a fault on SXM boards or if other GPUs have more, else a note.

    A list may be cut, so that only links that it states as inactive count.
    """
    most = max((sum(one.values()) for one in links.values()), default=0)
    linked = _always_linked(text, gpus)
    for number, one in links.items():
        inactive = [str(link) for link, is_active in one.items() if not is_active]
        if not inactive:
            continue
        which = f"NVLink{'s' if len(inactive) > 1 else ''} {', '.join(inactive)}"
        which = f"all {len(one)} NVLinks" if len(inactive) == len(one) > 1 else which
        words = f"{which} inactive, {sum(one.values())} of {len(one)} links work"
        is_dark = number in linked and len(inactive) == len(one) > 1
        if sum(one.values()) < most or "SXM" in gpus[number][1] or is_dark:
            state = f"{words}, on other GPUs {most}" if sum(one.values()) < most else words
            yield _fact(text, Quantity.GPU_STATE, state, lines[number], _named(number, gpus))
        else:
            note = f"GPU {number}: {words}; it may have fewer partners"
            yield text.fact(Quantity.NOTE, note, lines[number], "nvidia-smi")


FORMAT = Format(
    "nvidia-smi",
    Content.GPUS,
    "nvidia-smi -q > gpus.txt",
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d)",
    _is_report,
    _read,
    "nvidia_smi_q.txt",
    versions="`-q`, `-L` and the table: model, address, highest link of each GPU, errors and throttling",
    is_per_host=True,
)
