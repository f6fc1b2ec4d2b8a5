"""Reader of the errors that Open MPI, UCX, libfabric and perftest print when processes cannot be connected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

#: Messages on one line: of UCX, Open MPI, libfabric, launchers and perftest.
_MESSAGES = (
    # The line about the queue of an error follows it: "RC QP 0x4a1 wqe[12]: SEND".
    re.compile(r"UCX\s+(?:ERROR|Fatal:?)\s+(?!\s|\w+ QP 0x\w+ wqe)(.+)"),
    re.compile(r"UCX\s+WARN\s+((?:transport|network device) '.{1,60}' is not available.*)"),
    # Lines about the queue of an error follow it: "DCI QP 0xd16 wqe[3]: SEND".
    re.compile(r"ib_mlx5_log\.c:\d{1,6}\s+(?:FATAL: )?(?!\s|(?:UCX\s+ERROR\s+)?\w+ QP 0x\w+ wqe)(.+)"),
    re.compile(r" QP 0x\w+ wqe.{0,120} (sgix \d{1,4} dgid fe80::\S+)"),
    re.compile(r"cma_ep\.c:\d{1,6}\s+(process_vm_readv.+)|\b(process_vm_readv delivered 0 instead of \d.+)"),
    re.compile(r"_iface\.c:\d{1,6}\s+(FATAL: send completion with error: .+)"),
    re.compile(r"\] (PML \w{1,20} cannot be selected)"),
    re.compile(r"(MPIDI_CRAY_init: .{1,60}GTL library is not linked)"),
    re.compile(r"(INTERNAL ERROR: .{1,80}MPIDI_CH3I_set_affinity\S{0,20})"),
    re.compile(r"(Core id \d{1,9} does not exist on this architecture)"),
    # A debugger has another name than the process.
    re.compile(
        r"\b(ptrace attach of \"([^\"\s]{1,80})(?: [^\"]{0,120})?\"\[\d{1,9}\] was attempted by \"\2[ \"].{1,200})"
    ),
    re.compile(r"sharp_am\S{0,20}: (.{0,80}must bind to port with master SM.{0,60})"),
    re.compile(r"(help-mpi-\S{1,40}: Too many open files)"),
    re.compile(r"(\binit: .{0,60}can not load PMIx library)"),
    re.compile(r"(Couldn't find the specified plugin name for mpi/pmix\S{0,20})"),
    re.compile(r"(A request for multiple cpus-per-proc was .{1,60})"),
    re.compile(r"(no PSM2 device is active)"),
    re.compile(r"(ibv_reg_mr failed \(errno \d{1,3}.*)"),
    re.compile(r"((?:Error in )?mlx5dv_devx_obj_modify for \w{1,20}_QP.{0,60}|ibgda_rc_init2rtr failed)"),
    re.compile(r"(nvshmem setup connections failed|connect EPS failed)"),
    re.compile(r"(modprobe: FATAL: Module \S{1,40} not \w{5} in directory \S{1,80})"),
    re.compile(r"(open\(file_name=/proc/\d{1,9}/fd/\d{1,6}.{0,60}\) failed.{0,60})"),
    re.compile(r"(Flow control triggered due to failure to append LE.{0,60})"),
    re.compile(r"\(GTL DEBUG: \d{1,7}\) (cuIpc\w{1,30}: .{1,60})"),
    re.compile(r"^\s*(Caught signal (?:7|11) .{0,80})"),
    re.compile(r"(mlx5: \S{1,60}: got completion with error)"),
    re.compile(r"(DeepEP (?:error: timeout|(?:dispatch|combine) .{0,60}timeout).{0,60}|check timeout failed)"),
    re.compile(r"(An? (?:ORTE|PRTE|PRRTE) daemon has unexpectedly failed after launch)"),
    re.compile(r"(neither nv_peer_mem,? or nvidia_peermem detected)"),
    re.compile(r"(NULL value cannot allocate mlx5dv_devx_uar)"),
    re.compile(r"(EFA internal error: .{1,120}|Libfabric error: \(-\d{1,4}\) .{1,80})"),
    re.compile(r"(nvidia-container-cli: (?:[\w ]{1,30} )?error\b.{1,300}|Command not found: nvidia-container-cli)"),
    re.compile(r"(libibverbs: Warning: Driver \w{1,20} does not support the kernel ABI of \d{1,3})"),
    re.compile(
        r"(No IB devices found|Unable to find the Infiniband/RoCE device|sys files not found \(/sys/class/infiniband)"
    ),
    re.compile(r"(No SM/SA .{1,10} on port)"),
    re.compile(r"(unable to open GDR driver|Error getting the gdrdrv driver version)"),
    re.compile(r"(PSM2? could not set up shared memory segment.{0,40})"),
    re.compile(r"(IMEX daemon status is -\d{1,3} .{0,30})"),
    re.compile(r"(gres/gpu count reported lower than configured \(\d{1,3} < \d{1,3}\))"),
    re.compile(r"(Number of GPUs detected in the PCI tree \d{1,3} is not equal to .{1,60})"),
    re.compile(r"(Unable to resolve hostname to a \(local\) address)"),
    re.compile(r"(Read -1, expected \d{1,15}, errno ?= ?1\b)"),
    re.compile(r"pml_ucx\.c:\d{1,6}\s+Error: (.+)"),
    re.compile(r"btl_tcp_endpoint\.c[^\]]{0,200}\]\s*(connect\(\) to .+)"),
    re.compile(
        r"((?:OFI )?fi_getinfo(?:\(\))? fail(?:ed|ure).*|(?<!NET/)OFI [\w ]{1,60}(?:\(\))? failed ?\(.+"
        r"|PSM2 (?:was unable|can't|no hfi) .+)"
    ),
    re.compile(r"(A request was made to bind .{0,60}would require binding)"),
    re.compile(r"(ucx function returned with failed status.{0,160})"),
    re.compile(r"([Uu]nable to run bstrap_proxy on \S{1,80})"),
    re.compile(r"(?:\*\*\*|^)\s*(MPI_ERR_\w{2,30}: .{1,80})"),
    re.compile(r"(The call to cu(?:Ipc|Mem|Event)\w{1,40} failed)"),
    re.compile(r"(couldn't load driver 'lib(?:mlx5|hfi1|bnxt_re|irdma|efa)\S{1,60})"),
    re.compile(
        r"(received unexpected process identifier .{1,60}|Open MPI accepted a TCP connection from what appears)"
    ),
    re.compile(r"(selected pml \w{1,20}, but peer .{1,60} selected pml \w{1,20})"),
    re.compile(r"(\w{2,10} fabric is unknown or has been removed|Unable to find '\w{2,20}' provider)"),
    re.compile(r"(This test requires (?:at least|exactly) two processes)"),
    re.compile(r"(MPI_ABORT was invoked on rank \d{1,7})"),
    re.compile(r"(has exited due to process rank \d{1,7} .{0,80}on node \S{1,80})"),
    re.compile(r"(fi_getinfo: (?:-\d{1,4} \(.{1,60}\)|provider \S{1,30} output empty list))"),
    re.compile(r"((?:orted|prted): command not found)|(There are not enough slots available.+)"),
    re.compile(r"((?:ORTE|PRTE) was unable to reliably start one or more daemons)"),
    re.compile(r"^(ssh: connect to host \S+ port \d{1,5}: .+)"),
    re.compile(r"(Failed to modify QP (?:\d{1,15} )?to RT[RS]\b.*|Unable to Connect the HCA's through the link)"),
    re.compile(r"(Failed status (?:\d{1,3}: wr_id|transport retry).+)"),
    re.compile(r"(Unable to (?:open file descriptor for|init the) socket connection)"),
    re.compile(r"(Couldn't (?:allocate|register) MR.*|failed to create mr\b.*|Couldn't read remote address)"),
    re.compile(r"^\s*(Port number \d{1,3} state is Down)"),
    re.compile(
        r"(?:\[c10d\]\s?.{0,40}?|Dist(?:Network|Store)Error: )"
        r"(The client socket has .+|The IPv\d network addresses of .+|.{0,40}timed out after .+)"
    ),
    re.compile(
        r"(?:mpirun|mpiexec|orterun|prterun|prun) noticed that "
        r"(process rank \d{1,7} .{0,160}exited on(?: signal \d.*|\s*$))"
    ),
    re.compile(r"(?<!Call to )\b(ibv_modify_qp failed.*)"),
    re.compile(r"\bfailed (\(exitcode: -?\d{1,3}\) local_rank: \d{1,6}.*)"),
    re.compile(r"(exits with return code = -?[1-9]\d{0,2}\b)"),
    re.compile(r"btl: tcp: (Match incoming connection .{1,160}failed.*)"),
    re.compile(r"(No PMIx server was reachable.*)"),
    re.compile(r"(pmixp_\w{1,40}\.c:\d{1,6} .{0,40}mpi/pmix: ERROR: .*)"),
    re.compile(r"\] (Signal: [A-Z][\w ]{2,40} \(\d{1,2}\))"),
    re.compile(r"\] (Caught signal \d.*)"),
    re.compile(r"(Assertion failed in file \S{1,300} at line \d.*)"),
    re.compile(r"(EXIT STRING: .{1,60}\(signal \d.*)"),
    re.compile(r"^=\s{1,9}(EXIT CODE: [1-9]\d{0,4})\b"),
    re.compile(r"=\s{1,9}(KILLED BY SIGNAL: \d.*)"),
    re.compile(r"slurmstepd: error: (Detected \d{1,9} oom[_-]kill event.*)"),
    re.compile(r"slurmstepd: error: \*\*\* (?:STEP|JOB) .{0,80}(CANCELLED AT .+?) ?\*\*\*"),
    re.compile(
        r"srun: error: (\S{1,80}: tasks? .{1,80}: (?:Out Of Memory|Segmentation fault|Killed|Bus error|Aborted"
        r"|Exited with exit code \d).*)"
    ),
    re.compile(r"(OMPI was not built with SLURM's PMI support)"),
    re.compile(r"(hfi_userinit: .{0,80}failed.*)"),
    re.compile(r"(Unable to initialize any transports.*)"),
    re.compile(r"^\s*(GID: (?:00:){15}00)\s*$"),
    re.compile(r"(CQE ERROR.+|init failed for transport: IBGDA)"),
    re.compile(r"ERROR (collect_ports_data: .+|Failed to lock \w{1,8} tree.*|Cannot create SHARP job.*)"),
    re.compile(
        r"(?:\b[Gg]loo\b|ProcessGroupGloo).{0,200}?((?:[Cc]onnect|Unable to|[Tt]imed).{0,80}?"
        r"(?:failed|refused|closed by peer|reset|timed out|resolve hostname).*)"
    ),
    re.compile(r"^(?:RuntimeError: )?(connect \[[\w.:]{1,60}\]:\d{1,5}: .+)"),
)
#: Beginnings of messages in boxes of several lines, whose last lines name the host.
_BOX = re.compile(
    r"(.{0,20}There is at least (?:one )?non-excluded one OpenFabrics device found"
    r"|.{0,20}Open MPI failed to TCP connect to a peer MPI process"
    r"|A process or daemon was unable to complete a TCP connection"
    r"|(?:ORTE|PRTE) has lost communication with a remote daemon"
    r"|At least one pair of MPI processes are unable to reach each other"
    r"|The OpenFabrics \(openib\) BTL failed to initialize while trying to)"
)
#: Box about the transport of Open MPI before UCX, which is harmless: the cards are used by another one.
_OLD_TRANSPORT = re.compile(
    r"By default, for Open MPI [\d.]+ and later, infiniband ports on a device"
    r"|.{0,20}There was an error initializing an OpenFabrics device"
)
_NAMELESS = "The hostname of the client socket cannot be retrieved"
_NAMELESS_NOTE = "torch.distributed cannot look up the name of a host by its address, which changes no rate"
_OLD_TRANSPORT_NOTE = (
    "Open MPI does not use the network cards by its old transport (openib), and uses UCX, PSM2 or TCP: 'ompi_info' "
    "lists what is built in"
)
#: Provider of libfabric that Intel MPI states, and those that send over TCP.
_PROVIDER = re.compile(r"MPI startup\(\): libfabric provider: (\S{1,40})")
_OVER_TCP = ("tcp", "sockets")
#: Transports and devices of UCX for tagged messages between hosts.
_UCX_LANES = re.compile(r"\binter-node cfg#\d{1,6} tag\(([^)]{1,400})\)")
#: Summary of Cray MPICH about its network.
_TIMEOUTS = re.compile(r"MPICH Slingshot Network Summary: ([1-9]\d{0,12}) network timeouts")
#: Line of --report-bindings of Open MPI, before and since version 5.
_BINDING = re.compile(
    r"\[([A-Za-z][\w.-]{0,200}):\d{1,10}\] (?:MCW rank|Rank) (\d{1,7}) bound to "
    r"(?:socket (\d{1,3})\[core|package\[(\d{1,3})\])"
)
_UNBOUND = re.compile(r"\[([A-Za-z][\w.-]{0,200}):\d{1,10}\] (?:MCW rank|Rank) (\d{1,7}) is not bound")
_CORES = re.compile(r"(?:socket|package).{0,400}?(?=:? \[|$)")
#: "core:0-15" and "core:0,2" of Open MPI 5.
_SEVERAL_CORES = re.compile(r"core[:\[ ]\d{1,6}[-,]")
_DETAIL = re.compile(r"\s*(?:(?:Message|Error):\s+|Remote daemon: .{0,80}?(?=on node ))(\S.*)")
_LOCAL_HOST = re.compile(r"\s*(?:Local host|Process 1 \(.{0,80}?\) is on host):\s+(\S+)")
_BOX_ENDS = re.compile(r"-{40}")
#: Messages after which no process goes on, and lines of runs that were aborted.
_FATAL = re.compile(
    r"would require binding|failed status\(|bstrap_proxy|MPI_ERR_|has exited due to|at least two processes"
    r"|call to cuIpc|selected pml|nvshmem setup|connect EPS|GTL DEBUG|DeepEP|check timeout"
    r"|unexpectedly failed after launch|nvidia-container-cli|EFA internal error|mlx5dv_devx_uar|gres/gpu count"
    r"|UCX\s+Fatal|FATAL: "
    r"|cannot be selected"
    r"|GTL library|INTERNAL ERROR|specified plugin name|cpus-per-proc"
    r"|[Rr]etry count exceeded|Failed status |Failed to modify QP|socket connection"
    r"|Couldn't (?:allocate MR|read remote)|failed to create mr|state is Down|command not found|enough slots"
    r"|unable to reliably start|has lost communication|fi_getinfo|OFI [\w ]{1,60}(?:\(\))? failed ?\("
    r"|Unable to initialize any transports|CmiAbortHelper|MPI_ERRORS_ARE_FATAL|An error occurred in MPI_|MPI_ABORT"
    r"|MPI_Abort|[Ff]atal error in|Primary job  ?terminated"
    r"|exited on signal|KILLED BY SIGNAL|oom[_-]kill|CANCELLED AT|srun: error: \S{1,80}: task|PMI support|hfi_userinit"
    r"|\] Signal: |Assertion failed in file|EXIT (?:STRING: .{1,60}\(signal|CODE: [1-9])|noticed that process rank"
    r"|\(exitcode: |exits with return code|locally known IP|No PMIx server was|pmixp_"
    r"|[Cc]aught signal|unable to reach each other|Failed to create UCP worker|resolve UCX endpoint"
)
#: Host in "[1548304905.378218] [host:4770 :0]", "[host:04770]" and "[host][[38971,1],2]".
_HOST = re.compile(r"\[([A-Za-z][\w.-]{0,200})(?::\d{1,10}\s*(?::\d{1,10}\s*)?(?::\d{1,10})?\]|\]\[)")
_NUMBER = re.compile(r"\d+")
#: Warning of Open MPI, and the line that states how much memory can be registered.
_PART_OF_MEMORY = "allow registering part of your physical memory"
_REGISTERED = re.compile(r"Registerable memory:\s+(\d{1,12}) MiB")
_WORDS = (
    "UCX ",
    "A request was made to bind",
    "ucx function returned",
    "bstrap_proxy",
    "The call to cu",
    "couldn't load driver",
    "unexpected process identifier",
    "accepted a TCP connection",
    "selected pml",
    "fabric is unknown",
    "Unable to find '",
    "This test requires",
    "has exited due to",
    "process_vm_readv",
    "send completion with error",
    "cannot be selected",
    "GTL library",
    "set_affinity",
    "Core id ",
    "ptrace attach of",
    "master SM",
    "help-mpi-",
    "PMIx library",
    "specified plugin name",
    "cpus-per-proc",
    "PSM2 device",
    "nvidia_peermem detected",
    "devx_obj_modify",
    "init2rtr",
    "nvshmem setup",
    "connect EPS",
    "modprobe: FATAL",
    "open(file_name=/proc",
    "failure to append LE",
    "GTL DEBUG",
    "Caught signal",
    "got completion with error",
    "DeepEP",
    "check timeout failed",
    "daemon has unexpectedly",
    "mlx5dv_devx_uar",
    "EFA internal error",
    "Libfabric error",
    "nvidia-container-cli",
    "libibverbs: Warning",
    "No IB devices",
    "Infiniband/RoCE device",
    "sys files not found",
    "No SM/SA ",
    "GDR driver",
    "gdrdrv driver",
    "shared memory segment",
    "IMEX daemon",
    "gres/gpu count",
    "in the PCI tree",
    "Unable to resolve hostname",
    "CQE ERROR",
    "IBGDA",
    "GID: 00:00",
    "[c10d]",
    "DistNetworkError",
    "DistStoreError",
    "any transports",
    "ERROR collect_ports",
    "ERROR Failed to lock",
    "ERROR Cannot create SHARP",
    "gloo",
    "Gloo",
    "connect [",
    ".c:",
    "errno",
    "OFI ",
    "fi_getinfo",
    "PSM2",
    "command not found",
    "enough slots",
    "to reliably start",
    "has lost communication",
    "ssh: connect",
    "modify QP",
    "the HCA's",
    "socket connection",
    "Failed status",
    "Couldn't ",
    "ibv_reg_mr failed",
    "create mr",
    "state is Down",
    "infiniband ports on a device",
    "OpenFabrics device",
    "failed to TCP connect",
    "complete a TCP connection",
    "unable to reach each other",
    "Local host:",
    "is on host:",
    "Message:",
    "Remote daemon:",
    "Error:",
    "MPI_",
    "atal error",
    "Primary job",
    "signal",
    "----------",
    "Signal: ",
    "Assertion failed in file",
    "EXIT CODE:",
    "EXIT STRING:",
    "noticed that process rank",
    "(exitcode: ",
    "exits with return code",
    "btl: tcp: Match incoming",
    "No PMIx server was",
    "pmixp_",
    "ibv_modify_qp failed",
    "KILLED BY",
    "oom",
    "CANCELLED AT",
    "srun: error",
    "PMI support",
    "hfi_userinit",
    "not bound",
    " bound to ",
    "libfabric provider",
    "inter-node cfg#",
    "Network Summary",
    _PART_OF_MEMORY,
    "Registerable memory:",
)
_ENDED = "CANCELLED AT"
#: Row of nccl-tests: size, number of elements, type and operation.
_ROW_OF_NCCL = re.compile(r"^\s{0,20}\d{1,20}\s+\d{1,20}\s+[a-z]\w{2,12}\s+[a-z]\w{1,12}\s", re.MULTILINE)
_MOST_PROBLEMS = 20
_MOST_BINDINGS = 4
_LONGEST_PROBLEM = 400


def _may_be_error(line: str) -> bool:
    return any(word in line for word in _WORDS)


def _message(line: str) -> str | None:
    """Return the message of a line; None if it has none, or if NCCL prints it."""
    if "NCCL " in line:
        return None
    matches = (match for one in _MESSAGES if (match := one.search(line)) is not None)
    return next((str(match[match.lastindex or 0]).strip() for match in matches), None)


def _is_log(text: Text) -> bool:
    if not _may_be_error(text.raw):
        return False
    if _NAMELESS in text.raw:
        return True
    others = (_BINDING, _UNBOUND, _BOX, _OLD_TRANSPORT, _PROVIDER, _UCX_LANES, _TIMEOUTS, _REGISTERED)
    return any(
        _message(line) is not None or any(one.search(line) for one in others) for _, line in text.lines(_may_be_error)
    )


def _problems(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the errors; those of several processes once."""
    known: set[str] = set()
    for message, number, host in _errors(lines):
        kind = _NUMBER.sub("#", message)
        if kind not in known and len(known) < _MOST_PROBLEMS:
            known.add(kind)
            subject = () if host is None else (host,)
            yield text.fact(Quantity.MPI_PROBLEM, message[:_LONGEST_PROBLEM], number, "MPI", subject=subject)


def _errors(lines: list[tuple[int, str]]) -> Iterator[tuple[str, int, str | None]]:
    """Yield message, line and host of each error; a box ends with its line, or with the text."""
    box, first, host = "", 0, None
    details: list[str] = []
    after = dict(lines)
    for number, line in lines:
        if box and _BOX_ENDS.search(line):
            yield ": ".join([box, *details]), first, host
            box, details, host = "", [], None
        elif not box and (match := _BOX.match(line)) is not None:
            box, first = match[1].strip(), number
        elif box and (match := _LOCAL_HOST.match(line)) is not None:
            host = match[1]
        elif box and (match := _DETAIL.match(line)) is not None:
            details.append(match[1].strip())
        elif (message := _message(line)) is not None:
            named = _HOST.search(line)
            if message.endswith("exited on"):
                # Open MPI breaks this line before the signal.
                message += f" {after.get(number + 1, '').strip()}"
            yield message, number, None if named is None else named[1]
    if box:
        yield ": ".join([box, *details]), first, host


def _read(text: Text) -> Iterator[Reading]:
    # The reader of nccl-tests states how far a run came that Slurm ended.
    is_of_nccl = "algbw" in text.raw and _ROW_OF_NCCL.search(text.raw) is not None
    lines = [(number, line) for number, line in text.lines(_may_be_error) if not (is_of_nccl and _ENDED in line)]
    facts = list(_problems(text, lines))
    aborted = next((number for number, line in lines if _FATAL.search(line)), None)
    if facts and aborted is not None:
        facts.append(text.fact(Quantity.MPI_ABORTED, True, aborted, "MPI"))
    old = next((number for number, line in lines if _OLD_TRANSPORT.search(line)), None)
    if old is not None:
        facts.append(text.fact(Quantity.NOTE, _OLD_TRANSPORT_NOTE, old, "MPI"))
    facts += _bindings(text, lines)
    nameless = next((number for number, line in lines if _NAMELESS in line), None)
    if nameless is not None:
        facts.append(text.fact(Quantity.NOTE, _NAMELESS_NOTE, nameless, "torch.distributed"))
    facts += [*_of_network(text, lines), *_of_memory(text, lines)]
    yield Reading(facts, line=min((fact.place.line for fact in facts), default=0))


def _bindings(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the note to which sockets the ranks of each host are bound."""
    ranks: dict[tuple[str, str], list[int]] = {}
    cores: dict[tuple[str, str], list[tuple[int, int]]] = {}
    first = 0
    unbound = [(number, match) for number, line in lines if (match := _UNBOUND.search(line)) is not None]
    if unbound:
        number, match = unbound[0]
        who = f"{len(unbound)} ranks are" if len(unbound) > 1 else f"rank {match[2]} of {match[1]} is"
        words = f"{who} not bound: processes may move between sockets and cores (--bind-to core)"
        yield text.fact(Quantity.NOTE, words, number, "Open MPI")
    seen: set[tuple[str, str]] = set()
    for number, line in lines:
        if (match := _BINDING.search(line)) is not None:
            if (match[1], match[2]) in seen:
                # A rank for the second time is of the next run.
                break
            seen.add((match[1], match[2]))
            first = first or number
            ranks.setdefault((match[1], match[3] or match[4]), []).append(int(match[2]))
            if (bound := _CORES.search(line)) is not None:
                cores.setdefault((match[1], bound[0]), []).append((int(match[2]), number))
    if not ranks:
        return
    for (host, place), same in cores.items():
        if len(same) > 1 and place.count("core") == 1 and _SEVERAL_CORES.search(place) is None:
            words = f"ranks {same[0][0]} and {same[1][0]} of {host} are bound to the same core ({place.rstrip(':')})"
            yield text.fact(Quantity.CAUSE, words, same[1][1], "Open MPI", subject=("shared_core",))
    places = [f"{_ranks_text(numbers)} of {host} to socket {socket}" for (host, socket), numbers in ranks.items()]
    words = f"processes are bound: {listed(places, _MOST_BINDINGS)}"
    if len({socket for _, socket in ranks}) > 1 and all(len(numbers) == 1 for numbers in ranks.values()):
        words += "; sockets differ, and a network card is near one of them"
    yield text.fact(Quantity.NOTE, words, first, "Open MPI")


def _ranks_text(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} ranks"


def _of_memory(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield that Open MPI warns about memory that the network cards may not register, with its size."""
    first = next((number for number, line in lines if _PART_OF_MEMORY in line), None)
    if first is not None:
        size = next((match[1] for _, line in lines if (match := _REGISTERED.search(line)) is not None), None)
        words = f"network cards may register only {f'{size} MiB' if size else 'a part'} of the memory of a host"
        yield text.fact(Quantity.CAUSE, words, first, "Open MPI", subject=("registered_memory",))


def _of_network(text: Text, lines: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the transports that UCX and Intel MPI use, and the timeouts that Cray MPICH counts."""
    lanes = next(((number, match[1]) for number, line in lines if (match := _UCX_LANES.search(line)) is not None), None)
    if lanes is not None:
        number, used = lanes[0], list(dict.fromkeys(lanes[1].split()))
        words = f"UCX sends between hosts by {listed(used, _MOST_BINDINGS)}"
        yield text.fact(Quantity.NOTE, words, number, "UCX")
        if all(one.startswith("tcp/") for one in used):
            yield text.fact(Quantity.TCP, f"{words}: it sends over TCP", number, "UCX")
    for number, line in lines:
        if (match := _PROVIDER.search(line)) is not None:
            words = f"Intel MPI uses the provider {match[1]} of libfabric"
            yield text.fact(Quantity.NOTE, words, number, "Intel MPI")
            if match[1].partition(";")[0] in _OVER_TCP:
                yield text.fact(Quantity.TCP, f"{words}: it sends over TCP", number, "Intel MPI")
            return
        if (match := _TIMEOUTS.search(line)) is not None:
            words = f"the network timed out {match[1]} times: packets were lost or delayed (Cray MPICH)"
            yield text.fact(Quantity.CAUSE, words, number, "Cray MPICH", subject=("timeouts",))


FORMAT = Format(
    "MPI, UCX, gloo and launchers",
    Content.RUN_ERRORS,
    "mpirun -np 16 osu_allreduce > run.log 2>&1",
    "[1548304905.378218] [node1:4770 :0] ib_iface.c:690 UCX ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate",
    _is_log,
    _read,
    "mpi_errors.log",
    versions="also of libfabric and perftest: connections, devices and memory that processes cannot use; crashes "
    "in the words of mpirun, prterun, MPICH, Intel MPI, srun, torchrun and DeepSpeed",
)
