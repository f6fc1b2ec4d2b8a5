"""Reader of the lines that NCCL prints with NCCL_DEBUG=INFO: rings, transports, choices, settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.nccl.records import HostStatements, LoggedChoice, NcclLog
from fabricast.nccl.system import PathType
from fabricast.sources.pytorch_watchdog import stopped_ranks
from fabricast.sources.text import Format, Reading, Text, is_source_code

#: Names of texts without a line that NCCL prints.
SETTINGS, ERRORS = "settings of NCCL", "errors of a run on GPUs"
#: Before 2.4, lines do not name NCCL: "node1:7:9 [0] include/socket.h:360 WARN Call to connect failed".
_BEFORE_2_4 = r"^[\w.-]+:\d+:\d+ \[\d+\] [\w./]{1,60}\.(?:cu|cc|h):\d{1,5} "
_INFO = re.compile(rf"(?:NCCL |{_BEFORE_2_4}|^[\w.-]+:\d+:\d+ \[\d+\] (?=INFO ))(?:INFO|WARN) (.*)")
#: Warning that a sentence quotes.
_QUOTED = r"(?<=[a-z] )NCCL (?=WARN NET/)"
_WARN = re.compile(rf"(?:(?:^|[\]\d:>|)#])\s{{0,4}}NCCL |{_QUOTED}|{_BEFORE_2_4})WARN (.*)")
#: Service that prints the state of a run (RAS); it serves no operation, and one process of a host can open it.
_SERVICE = " ras/client_support.cc"
#: Message that says nothing without the place of its call.
_CALL = re.compile(r"([\w/]{1,60}\.cc):\d{1,5} NCCL WARN (Cuda failure .*)")
#: Errors of NCCL as its callers print them: nccl-tests and PyTorch.
_ERROR = re.compile(
    r"((?:Test )?(?:NCCL|CUDA|HIP) failure (?:\S{1,80}:\d|[\d'\"]|:).*|RuntimeError: NCCL error: .*"
    r"|nccl(?:UnhandledCuda|System|Internal|Remote)Error\b.*"
    r"|(?<!exceptions\.)(?:torch\.)?(?:cuda\.)?\b(?<!exceptions\.)OutOfMemoryError.*|CUDA out of memory.*"
    r"|CUDA error: (?=peer mapping|uncorrectable (?:NVLink|ECC)).*"
    r"|(?:(?<![^\n])|(?<=\]: )|(?<=\]:))"
    r"RuntimeError: CUDA error: (?:out of memory|an illegal memory access|unspecified launch).*"
    r"|Duplicate GPU detected : rank \d{1,6} and rank \d.*"
    r"|uncorrectable NVLink error.{0,80}"
    r"|CUDA error at .{1,200}cudaDeviceEnablePeerAccess.*"
    r"|Timeout at NCCL work: .*|Some NCCL operations have failed or timed out.*"
    r"|ProcessGroupNCCL's watchdog got stuck .*|waitForInput: .{1,200}timed out.*"
    r"|Cuda error \S{0,200}custom_all_reduce\.cuh:\d.*|CUDA_ERROR_TOO_MANY_PEERS.*"
    r"|NCCL [Ee]rror\s?[:\uff1a]?\s?(?:\d{1,2}: )?(?:unhandled|internal|invalid|remote) .*"
    r"|NET/OFI Couldn't .*|Last NCCL warning\(error\): (?!'none').*"
    r"|(?:HW Exception|Memory access fault) by GPU node-\d{1,3} \(Agent .*"
    r"|NCCL operation \S.{0,160}? failed: .*|(?:Failed, )?NCCL error \S{1,200}:\d{1,6} '.{1,160}?'"
    r"|P2P is disabled between NVLINK connected GPUs .*"
    r"|Error while (?:creat|attach)ing (?:to )?shared memory segment .*"
    r"|connecting to address .{0,80}with family \d{1,5} is neither.*"
    r"|NET/IB ?: read failed in ncclIbRoceGetVersionNum.*|NET/IBP? ?: ?Got completion .*"
    r"|ncclInvalid(?:Usage|Argument)\b.*|Watchdog caught collective operation timeout.*"
    r"|store->get\(.{1,80}\) got error: .{1,120}"
    r"|[^\n]{0,120}?(?:peer access is not supported between these two devices|[Ss]ystem not yet initialized"
    r"|cudaErrorSystemNotReady|no kernel image is available|invalid device function"
    r"|mapping of buffer object failed).{0,200})"
)
_WARNS = re.compile(rf"(?:(?:^|[\]\d:>|)#])[ \t]{{0,4}}NCCL |{_QUOTED})WARN", re.MULTILINE)
_HOST = re.compile(r"^([\w.-]+):\d+:\d+ \[\d+\] ")
_STATEMENT = re.compile(
    r"NCCL version|set by environment|_HCA set to|(?:Channel|Ring) \d|Selected [Pp]rovider|Pattern \d|n[rR]anks \d"
    r"|Bootstrap ?: Using|coll channels|Bytes ->|Could not find|P2P is disabled|Using (?:internal N|n)etwork"
    r"|NET/IB : |libibverbs|NET/Plugin|Plugin Path|NET/Socket : Using|NET : Using interface|GPU Direct RDMA"
    r"|Init COMPLETE|NVLS multicast support is"
)
#: Variables of the command that a log begins with: "mpirun -x NCCL_ALGO=Ring", "export NCCL_ALGO=Ring".
_COMMAND = re.compile(r"(?:^|[\s\"'`*])(NCCL_(?!DEBUG)[A-Z0-9_]{2,60})=[\"']?([^\s\"';$`*]{1,100})")
#: What may precede a variable that is set: a prompt, a command that sets it, and other variables.
_SETS = re.compile(
    r"(?:[^\w#]{0,20}|\S{0,60}[$#%>] {1,3}|.{0,400}(?<![^\s])(?:-x|-e|--env|export|env|ENV)[\s=]{1,3}"
    r"|(?:.{0,200}(?:&&|;)|[^\w]{0,20})\s{0,8}(?:set|setenv)\s{1,3})"
    r"(?:[\"'`*]{0,3}[A-Z][A-Z0-9_]{1,60}=\S{0,200}\s{1,3}){0,20}[\"'`*]{0,3}"
)
_LONGEST_COMMAND = 10_000
#: Words of a sentence that advises a setting.
_ADVICE = re.compile(
    r"(?<![-\w/.=])(?:[Ii]f|[Uu]se|[Tt]ry|[Ss]et it|[Ss]hould|[Cc]ould|[Cc]an|[Rr]ecommend\w*|[Ss]uggest\w*|[Yy]ou) "
)
#: What follows a variable in a sentence: punctuation, or three words that do not begin with a launcher.
_SENTENCE = re.compile(
    r"(?<=,)\s+[A-Za-z]|[`*]{1,3}[,.;:)]|[`*]{0,3} (?!(?:\S{0,20}python\S{0,4}|uv|torchrun|mpi\w{2,6}|srun|accelerate"
    r"|deepspeed|vllm|bash|sh|docker|numactl|ray|make|sudo|nohup|time|exec|llamafactory-cli|swift|xtuner) )"
    r"(?:[a-z]{2,15} ){2}[a-z]{2,15}(?![\w./-])(?!.{0,400}\s--?\w)"
)
#: Programs after which a variable is an argument.
_PROGRAM = re.compile(r"\S{1,80}_perf\b|\bpython3?\b|\btorchrun\b")
_LAUNCHER = re.compile(
    r"\W{0,6}(?:\S{1,60}[$#] )?(?:[A-Z][A-Z0-9_]{1,60}=\S{0,200}\s{1,3}){0,20}"
    r"(\S{1,80}_perf|python3?|torchrun|mpirun|mpiexec|srun|deepspeed|accelerate) "
)
_IN_COMMAND = (
    "_perf",
    "-e NCCL_",
    "-x NCCL_",
    "mpirun",
    "srun ",
    "torchrun",
    "export ",
    "docker ",
    "python",
    "env ",
    "=",
)
_VERSION = re.compile(r"NCCL version (\d+)\.(\d+)\.(\d+)")
#: Before NCCL 2.5, "Using internal Network Socket".
_NETWORK = re.compile(r"Using (?:internal N|n)etwork (\S.*?)\s*$")
#: Interface that other hosts cannot reach.
_LOCAL = re.compile(
    r"^(?:NET : Using interface |NET/Socket : Using (?:\[\d+\])?)"
    r"(?:(?P<lo>lo):127\.|(?P<bridge>(?:docker|virbr|veth|cni)\w{1,40}|br-[0-9a-f]{12}):|(?P<link>[\w.@-]{1,40}):fe80:)"
)
_LOCAL_KINDS = {
    "lo": "which reaches no other host",
    "bridge": "a bridge that each host has for its containers or virtual machines",
    "link": "whose address (fe80) is valid on one link only",
}
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([^\s,(]{1,60})")
_GPUDIRECT = re.compile(r"GPU Direct RDMA (Disabled|Enabled) for (?:HCA|GPU)")
_NO_VERBS = ("Failed to open libibverbs", "NET/IB : No device found")
_INTERFACE = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?([\w.-]{1,40}:[^\s<]{1,80})")
_CARDS = re.compile(r"NET/IB : Using ((?:\[\d+\][^\s;]\S*\s*)+)")
_CARD_NAME = re.compile(r"\[\d{1,4}\]([^:\s]{1,60})")
_COMM = re.compile(r"comm (0x[0-9a-f]+) .*?rank (\d{1,15}) n[rR]anks (\d{1,15})(.*)")
_BUS = re.compile(r"busId ([0-9a-f]+)")
_LAYER = re.compile(r"\]([\w.-]{1,40}):\d{1,3}/(IB|RoCE)\b")
_NODES = re.compile(r"nNodes (\d{1,15})")
_CHANNEL = re.compile(r"Channel (\d{1,15})/(\d{1,15}) :((?:\s+\d{1,15})+)(\.\.\.)?\s*$")
#: Before NCCL 2.6, "Ring 00 : 15 -> 0 [send] via NET/Socket/0".
_VIA = re.compile(
    r"(?:Channel|Ring) \d{1,15}(?:/\d+)? : (?P<one>\d{1,15})(?:\[(?P<of_one>[^\]]*)\])? -> "
    r"(?P<other>\d{1,15})(?:\[(?P<of_other>[^\]]*)\])? (?:\[(?P<end>\w+)\] )?via (?P<via>.+)"
)
#: Digits from which the number in brackets is a PCI address, and no number of a device.
_SHORTEST_ADDRESS = 3
#: Plugin for the network that is loaded, or that none is found.
_PLUGIN = re.compile(
    r"(?:NET/Plugin ?: ?(?:Loaded net plugin (?P<name>\w[\w. -]{0,40}?) ?(?:\(|$)|(?P<none>.{0,120}?"
    r"(?:No plugin|Using internal net(?:work)? plugin|using internal implementation)))"
    r"|Plugin Path : \S{0,200}/(?P<file>[\w.-]{1,60}))"
)
_PATTERN = re.compile(
    r"Pattern (\d{1,15}), crossNic \d+, nChannels (\d{1,15}), "
    r"(?:bw|speed) (\d+(?:\.\d+)?)/(\d+(?:\.\d+)?), type (\w+)/(\w+)"
)
_COLL = re.compile(r"(\d{1,15}) coll channels")
_CHOICE = re.compile(
    r"(\w+): (\d{1,15}) Bytes -> Algo (\w+) proto (\w+)(?: channel\{Lo\.\.Hi\}=\{(\d{1,15})\.\.(\d{1,15})\})?"
)
_OLD_CHOICE = re.compile(r"(\d{1,15}) Bytes -> Algo (\d{1,15}) proto (\d{1,15}) time ([\d.]+)")
#: NCCL prints its list of cards without the words "by environment".
_ENV = re.compile(r"(NCCL_\w+) set (?:by environment )?to (\S+?)\.?$")
_BARE_ENV = "set by environment to"
_FALLBACK = re.compile(r"Could not find a path for pattern (\d{1,15})")
_DISABLED = re.compile(r"P2P is disabled between (?:NVLINK )?connected GPUs (\d{1,15}) and (\d{1,15})")
_UNEXPLAINED = re.compile(r"failure \S{1,80}:\d{1,6}$")
#: Last of the retries that NCCL states as information.
_LAST_RETRY = re.compile(
    r"((?:connect|socket\w{1,40}).{0,80}, retrying \((\d{1,4})/\2\)"
    r"|Call to connect returned (?:Connection timed out|No route to host), retrying$)"
)
_INITIALISED = "Init COMPLETE"
_ANY = re.compile(r"(.*)")
#: Numbers and addresses, without which messages of several ranks are equal.
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+")
#: Maximum number of different problems of a log.
_MOST_PROBLEMS = 20
#: Characters of a problem that are kept.
_LONGEST_PROBLEM = 400
_ALGORITHMS, _PROTOCOLS = ("tree", "ring"), ("ll", "ll128", "simple")
#: Words of the errors that callers of NCCL print.
_WORDS_OF_ERRORS = (
    "NCCL failure",
    "NCCL operation",
    "P2P is disabled between NVLINK",
    "shared memory segment",
    "ncclIbRoceGetVersionNum",
    "is neither AF_INET",
    "Got completion",
    "NCCL error",
    "NCCL Error",
    "CUDA failure",
    "HIP failure",
    "CUDA error: ",
    "nccl",
    "Watchdog caught",
    "uncorrectable NVLink",
    "out of memory",
    "OutOfMemory",
    "peer access is not supported",
    "ystem not yet initialized",
    "uncorrectable ECC",
    "Duplicate GPU detected",
    "cudaErrorSystemNotReady",
    "no kernel image is available",
    "invalid device function",
    "Last NCCL warning",
    "peer mapping resources",
    "mapping of buffer object failed",
    "store->get(",
    "uncorrectable NVLink",
    "Timeout at NCCL work",
    "Some NCCL operations have failed",
    "watchdog got stuck",
    "waitForInput: ",
    "cudaDeviceEnablePeerAccess",
    "custom_all_reduce.cuh:",
    "TOO_MANY_PEERS",
    "NET/OFI Couldn't",
    "HW Exception by GPU",
    "Memory access fault by GPU",
)
#: Line by which a function of NCCL passes an error up.
_RETURNED = re.compile(r"\.(?:cc|cu|h):\d{1,6} -> [1-6]\b")
#: Line of PyTorch before the last message of NCCL.
_LAST_ERROR = re.compile(r"Last error:\s*(.*)")


def _is_log(text: Text) -> bool:
    if "NCCL WARN" in text.raw and _WARNS.search(text.raw) is not None:
        return True
    if any(words in text.raw for words in ("NCCL INFO", _BARE_ENV)) or _VERSION.search(text.raw):
        return True
    if " WARN " in text.raw and re.search(rf"{_BEFORE_2_4}WARN ", text.raw, re.MULTILINE) is not None:
        return True
    if "NCCL_" in text.raw and (any(map(_is_command, text.raw.splitlines())) or any(_without_effect(text))):
        return True
    return any(word in text.raw for word in _WORDS_OF_ERRORS) and _ERROR.search(text.raw) is not None


def _is_command(line: str) -> bool:
    """Return whether a line is a command that sets variables of NCCL."""
    return "NCCL_" in line and any(word in line for word in _IN_COMMAND) and bool(_set_in(line))


def _set_in(line: str) -> list[tuple[str, str]]:
    """Return the variables that a command sets."""
    if line.lstrip().startswith("#") or len(line) > _LONGEST_COMMAND:
        return []
    found = [one for one in _COMMAND.finditer(line) if _SETS.fullmatch(line[: one.start(1)]) is not None]
    if any(_SENTENCE.match(line, one.end()) is not None for one in found):
        return []
    return [(one[1], one[2].rstrip(",.)")) for one in found if _ADVICE.search(line[: one.start(1)]) is None]


def _without_effect(text: Text) -> Iterator[Fact]:
    """Yield variables after the program of a command, which are arguments of it."""
    for number, line in text.lines(lambda line: "NCCL_" in line):
        if "NCCL_" not in line or "NCCL INFO" in line or "#" in line:
            continue
        program = _PROGRAM.search(line)
        if program is None:
            continue
        for one in _COMMAND.finditer(line, program.end()):
            # Another quoted command may follow.
            is_of_program = "`" not in line[program.end() : one.start(1)]
            if is_of_program and _SETS.fullmatch(line[: one.start(1)]) is None:
                words = f"{one[1]}={one[2]} follows the program, where it has no effect: variables precede it"
                yield text.fact(Quantity.NOTE, words, number, "NCCL")


def _log(text: Text) -> NcclLog:
    """Return the statements about the largest communicator."""
    log, sizes, command = NcclLog(), Counter[int](), dict[str, tuple[str, int]]()
    #: Variables that each command of a program sets, and whether the next line continues a command.
    launches: dict[str, list[set[str]]] = {}
    is_continued = False
    for number, line in text.lines(lambda line: "NCCL" in line):
        match = _INFO.search(line)
        if log.version is None and (version := _VERSION.search(line)) is not None:
            log.version = (int(version[1]), int(version[2]), int(version[3]))
            log.lines.setdefault("version", number)
        if match is None:
            settings = _settings(line)
            command.update({one: (value, number) for one, value in settings if one not in command})
            launcher = None if "NCCL_" not in line or is_continued else _LAUNCHER.match(line)
            if launcher is not None and not line.rstrip().endswith("\\"):
                launches.setdefault(launcher[1], []).append({one for one, _ in settings})
            is_continued = line.rstrip().endswith("\\")
            continue
        statements = None
        if (host := _HOST.match(line)) is not None:
            statements = log.hosts.get(host[1]) or log.hosts.setdefault(host[1], HostStatements())
        if _RETURNED.search(line) is not None:
            log.lines.setdefault("returned", number)
        # Most lines of a large log state nothing about the communicator.
        if _STATEMENT.search(line):
            _statement(log, sizes, match[1].strip(), text, number, statements)
            if _INITIALISED in line:
                log.lines["initialised"] = number
            if (disabled := _DISABLED.search(line)) is not None:
                # Each rank prints each direction.
                one, other = sorted((int(disabled[1]), int(disabled[2])))
                log.disabled_pairs.add(("" if host is None else host[1], one, other))
                log.lines.setdefault("disabled", number)
            if statements is not None:
                _of_host(statements, match[1], number)
                if statements.cards is not None:
                    log.lines.setdefault("cards", statements.cards[1])
    for name, (value, number) in command.items():
        if any(0 < sum(name in one for one in same) < len(same) for same in launches.values()):
            # Of several commands, some set it: which of them the log is of is unknown.
            continue
        # What NCCL states of a variable precedes.
        log.environment.setdefault(name, value)
        log.lines.setdefault(name, number)
    # Since 2.20, NCCL prints the number of nodes.
    log.nodes = max(log.nodes, len(log.hosts))
    if sizes:
        # Lines of smaller communicators of the same job are ignored.
        log.ranks = max(sizes)
    elif log.orders:
        log.ranks = max(len(order) for order in log.orders.values())
    log.orders = {channel: order for channel, order in log.orders.items() if len(order) == log.ranks}
    return log


def _settings(line: str) -> list[tuple[str, str]]:
    """Return the variables of a command, and that of a message of NCCL that is quoted without its beginning."""
    return _set_in(line) if _is_command(line) else _ENV.findall(line)


def _of_host(host: HostStatements, body: str, number: int) -> None:
    """Add what a host states first; one hop with GPUDirect is enough."""
    if (match := _ENV.search(body)) is not None:
        host.environment.setdefault(match[1], (match[2], number))
    elif host.version is None and (match := _VERSION.search(body)) is not None:
        host.version = (".".join(match.groups()), number)
    elif host.interface is None and (match := _INTERFACE.search(body)) is not None:
        host.interface = (match[1], number)
    elif host.network is None and (match := _NETWORK.search(body)) is not None:
        host.network = (match[1], number)
    elif host.plugin is None and (match := _PLUGIN.search(body)) is not None:
        name = match["name"] or match["file"]
        host.plugin = ("no plugin" if name is None else f"the plugin {name}", number)
        host.is_plugin_file = match["file"] is not None
    elif host.cards is None and (match := _CARDS.search(body)) is not None:
        host.card_names = tuple(_CARD_NAME.findall(match[1]))
        host.cards = (str(len(match[1].split())), number)
        layers = dict(_LAYER.findall(match[1]))
        host.layers = frozenset(layers.values())
        rarer = min(("IB", "RoCE"), key=list(layers.values()).count)
        host.odd_cards = tuple(name for name, layer in layers.items() if layer == rarer)
    elif (match := _GPUDIRECT.search(body)) is not None and host.gpudirect is None:
        host.gpudirect = ("without" if match[1] == "Disabled" else "with", number)
    elif " via NET/IB" in body and (host.gpudirect is None or host.gpudirect[0] == "without"):
        uses = "GDR" in body
        if host.gpudirect is None or uses:
            host.gpudirect = ("with" if uses else "without", number)


def _statement(
    log: NcclLog, sizes: Counter[int], body: str, text: Text, number: int, host: HostStatements | None
) -> None:
    """Add one line to the log."""
    if (match := _LOCAL.search(body)) is not None and "local interface" not in log.lines:
        log.lines["local interface"] = number
        which, name = next((which, name) for which, name in match.groupdict().items() if name is not None)
        log.local_interface = f"{name}, {_LOCAL_KINDS[which]}"
    if (match := _NETWORK.match(body)) is not None:
        log.network = match[1]
        log.lines.setdefault("network", number)
    elif (match := _PROVIDER.search(body)) is not None:
        log.provider = log.provider or match[1]
        log.lines.setdefault("provider", number)
    elif "NVLS multicast support is" in body:
        log.lines.setdefault("no NVLS" if "is not" in body else "NVLS", number)
    elif body.startswith("NET/Socket : Using"):
        log.network = log.network or "Socket"
    elif _CARDS.match(body) is not None and "network" not in log.lines:
        # Before 2.5, NCCL lists the interfaces of TCP first, and states no choice.
        log.network = "IB"
    elif any(words in body for words in _NO_VERBS):
        log.lines.setdefault("no verbs", number)
    elif (match := _GPUDIRECT.search(body)) is not None:
        # Cards that send by sockets have none.
        if "Socket" not in body:
            log.lines.setdefault("GDR" if match[1] == "Enabled" else "no GDR", number)
    elif (match := _ENV.search(body)) is not None:
        log.lines.setdefault(match[1], number)
        # Hosts of a job may differ, which a diagnosis states; one host with two values has two runs.
        before = log.environment.setdefault(match[1], match[2])
        if host is not None:
            before = host.environment.get(match[1], (match[2], 0))[0]
        if before != match[2]:
            raise text.error(
                f"{match[1]} is {match[2]}, expected {before} as before: the log holds runs with different settings",
                number,
            )
    elif (match := _CHANNEL.match(body)) is not None:
        order = tuple(int(rank) for rank in match[3].split())
        if match[4] or len(set(order)) != len(order):
            log.truncated_orders += 1
        else:
            log.orders[int(match[1])] = order
    elif (match := _VIA.match(body)) is not None:
        _hop(log, match, number)
    elif (match := _PATTERN.match(body)) is not None:
        kind = PathType.__members__.get(match[5], PathType.SYS)
        log.patterns[int(match[1])] = (int(match[2]), float(match[3]), kind)
    elif (match := _COMM.search(body)) is not None:
        sizes[int(match[3])] += 1
        if (bus := _BUS.search(body)) is not None:
            log.bus_ids[int(match[2])] = bus[1]
        if (nodes := _NODES.search(body)) is not None:
            log.nodes, log.states_nodes = max(log.nodes, int(nodes[1])), True
    elif (match := _COLL.search(body)) is not None:
        log.coll_channels = int(match[1])
    elif (match := _CHOICE.match(body)) is not None:
        channels = None if match[5] is None else int(match[6]) - int(match[5]) + 1
        log.choices.append(LoggedChoice(match[1], int(match[2]), match[3].lower(), match[4].lower(), channels))
    elif (match := _OLD_CHOICE.match(body)) is not None:
        algorithm, protocol = int(match[2]), int(match[3])
        if algorithm < len(_ALGORITHMS) and protocol < len(_PROTOCOLS):
            log.choices.append(LoggedChoice("", int(match[1]), _ALGORITHMS[algorithm], _PROTOCOLS[protocol], None))
    elif (match := _FALLBACK.search(body)) is not None:
        log.fallbacks.append(int(match[1]))


def _hop(log: NcclLog, match: re.Match[str], number: int) -> None:
    """Add the transport of a hop; over a network, that of the sender, whose card may differ from the receiver's."""
    pair = int(match["one"]), int(match["other"])
    address = match["of_one"] or ""
    if len(address) >= _SHORTEST_ADDRESS and address == match["of_other"] and pair[0] != pair[1]:
        # GPUs of different ranks with one address are of different hosts.
        log.nodes = max(log.nodes, 2)
    # Names of network plugins may have blanks: "NET/AWS Libfabric/0/GDRDMA".
    via = match["via"].strip() if match["via"].startswith("NET/") else match["via"].split()[0]
    if "shared memory" in match["via"]:
        # "via direct shared memory" of NCCL before 2.13.
        via = "SHM"
    log.lines.setdefault(via.partition("/")[0], number)
    if "GDR" in via:
        log.lines.setdefault("GDR hop", number)
    if match["end"] == "receive" and pair in log.transports:
        return
    log.transports[pair] = via
    if match["end"] == "send":
        log.sends.setdefault(pair, number)


def _may_be_problem(line: str) -> bool:
    if _SERVICE in line:
        return False
    return " WARN " in line or ", retrying" in line or any(word in line for word in _WORDS_OF_ERRORS)


def _problems(text: Text) -> Iterator[Fact]:
    """Yield the warnings and errors of a log; those of several ranks once."""
    known: set[str] = set()
    is_next = False
    # The warning after the last retry names the address, and a run that goes on was answered.
    names_address = any(words in text.raw for words in ("Connect to ", "Connected all ", "Init COMPLETE"))
    # Only the message below "Last error:" has none of the words; large logs are searched for lines with them.
    for number, line in text.lines(None if "Last error:" in text.raw else _may_be_problem):
        match: re.Match[str] | None
        if is_next and line.strip():
            match, is_next = _ANY.match(line.strip()), False
        elif (last := _LAST_ERROR.search(line)) is not None:
            match, is_next = _ANY.match(last[1]), not last[1]
        elif _may_be_problem(line):
            match = _CALL.search(line) or _WARN.search(line) or _LAST_RETRY.search(line)
            match = match or (None if "NCCL INFO " in line or is_source_code(line) else _ERROR.search(line))
        else:
            continue
        if match is not None and match.re is _LAST_RETRY and names_address and "Call to" in match[1]:
            continue
        if match is None or not match[1] or len(known) == _MOST_PROBLEMS:
            continue
        kind = _VARIABLE.sub("#", match[1])
        if kind not in known:
            known.add(kind)
            host = _HOST.match(line)
            subject = (host[1],) if host is not None else ()
            message = f"{match[2].strip()} ({match[1]})" if match.re is _CALL else match[1].strip()
            if _UNEXPLAINED.search(message) is not None and number < len(text.clean_lines):
                # The reason is on the next line.
                message += " " + text.clean_lines[number].strip()
            yield text.fact(Quantity.NCCL_PROBLEM, message[:_LONGEST_PROBLEM], number, "NCCL", subject=subject)


def _read(text: Text) -> Iterator[Reading]:
    log = _log(text)
    first = next((number for number, line in text.lines(lambda line: "NCCL" in line) if _INFO.search(line)), 0)
    problems = list(_problems(text))
    facts = [
        text.fact(Quantity.NCCL_RUN, log, first or log.lines.get("version", 0), "NCCL"),
        *problems,
        *stopped_ranks(text, log.ranks),
        *_without_effect(text),
    ]
    program = ""
    if not first and log.version is None and "NCCL " not in text.raw and "ProcessGroupNCCL" not in text.raw:
        program = ERRORS if problems else SETTINGS
    yield Reading(facts, line=first, text=str(log), program=program)


FORMAT = Format(
    "NCCL_DEBUG=INFO",
    Content.NCCL_LOG,
    "NCCL_DEBUG=INFO all_reduce_perf -g 8 > nccl.log",
    "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    _is_log,
    _read,
    "nccl.log",
    versions="NCCL 2.12 to 2.30: rings, channels, transports, settings, choices; warnings and errors of all versions",
)
