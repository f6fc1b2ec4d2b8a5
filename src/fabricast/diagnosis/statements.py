"""Statements of the files of a machine, without topology and model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fabricast.core.facts import Block, Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed, shortened
from fabricast.diagnosis.known_problem import KnownProblem
from fabricast.diagnosis.nccl_problems import CARD_FAILED, NO_VERBS, OFI_FAILED, OFI_REFUSED, known_problem
from fabricast.diagnosis.ports import slow_ports
from fabricast.diagnosis.settings import SWITCHED_OFF
from fabricast.diagnosis.weights import ACCESS, FIRST, LINK, MINOR, SYMPTOM
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.records import HostStatements, NcclLog, NcclTestsTable
from fabricast.sources.nvidia_smi import CAPPED
from fabricast.sources.pytorch_watchdog import REPORTING_RANKS_WAIT

#: Maximum number of characters of a quoted message, and of settings that are listed.
_MOST_QUOTED, _MOST_SETTINGS = 240, 8
_AFTER_ERRORS = "reset the GPU ('nvidia-smi -r') or reboot; replace it if 'nvidia-smi -q -d ECC' shows new errors"
#: Words of the states that a reset may end, or that wear out, and advice for other states.
_OF_HARDWARE = ("Xid", "ECC", "Remapped", "Retired", "wrong results", "stopped")
_LOOK = "'nvidia-smi -q' and 'sudo dmesg' of the host state more about this GPU"
_AFTER_THROTTLING = "check cooling, power cables and power supply; 'nvidia-smi -q -d PERFORMANCE' while it works"
#: Verbs of states of one device, and of several.
_OF_SEVERAL = {"is": "are", "runs": "run", "has": "have"}
_AFTER_CABLES = "check cable, transceiver and port of the switch ('ibstat', 'mlxlink -d DEVICE')"
#: Advice for network cards by words of their state; that for cables otherwise.
_AFTER_CARDS = {
    **dict.fromkeys(
        ("rx_discards", "tx_discards", "PortXmitDiscards", "port_xmit_discards"),
        "read the counters again after an hour: errors of CRC and symbols are of cable or module, discards are of "
        "congestion (slow hosts behind this port; on Ethernet, flow control by PFC and ECN)",
    ),
    "lost packets": (
        "on RoCE, PFC or ECN must be set alike on cards and switches, and the MTU; on InfiniBand, cables ('mlxlink'); "
        "adaptive routing changes the order without a loss; read the counters before and after a run"
    ),
    "counted errors": (
        "read the counters again after an hour ('perfquery -R' clears those of InfiniBand): if they grow, replace "
        "cable or module"
    ),
    "supports": "check cable, port of the switch and 'ethtool' on both sides (autonegotiation, forced speeds)",
    "pages for the processes": (
        "fewer processes on a host, or more pages: PF_LOG_BAR_SIZE (mlxconfig, then reboot), for mlx4 "
        "log2_uar_bar_megabytes and the option enable_4k_uar of mlx4_core"
    ),
    "has no GUID": "set the GUIDs of the virtual function before its use ('ip link set IB vf N node_guid')",
    "virtual function without": (
        "set its GUIDs ('ip link set IB vf N node_guid', port_guid) and its state to auto; the subnet manager needs "
        "virtualisation (opensm: virt_enabled 2)"
    ),
    "firmware or driver": "reset the card ('mlxfwreset') or reboot; update its firmware and driver",
    "of PCIe": "check slot, riser, bifurcation and the PCIe generation in the BIOS ('sudo lspci -vv', LnkSta)",
    "power": "check the power cables of the card, and the power limit of its slot in the BIOS",
    "Initializ": "no subnet manager has configured this port: check that one (opensm, or that of a switch) runs",
    "register memory": "check free memory and 'ulimit -l' of the job (status -12 is a lack of memory), then driver and "
    "firmware",
}
_AFTER = {
    "of PCIe, limited by": "check slot, riser, bifurcation and PCIe generation in the BIOS ('sudo lspci -vv')",
    "replays": "reseat the card, riser or cable: the PCIe link repeats packets; compare the count after some minutes",
    "uncorrected errors": "check slot, riser and power; after a completion timeout (CmpltTO) the device itself",
    "IO_PAGE_FAULT": "switch the IOMMU to pass-through (iommu=pt) or off for copies between GPUs",
    "of its PCIe link": "reseat the card, riser or cable: the PCIe link repeats packets",
    "error of its driver:": "reset the GPU or reboot; update its driver and firmware if the error returns",
    "by its driver": "check power cables, slot and riser, and driver against model; 'nvidia-smi -r' or a power cycle",
    "needs a reset": "reset the GPUs ('nvidia-smi -r') or reboot",
    "fallen off the bus": "check power supply and cables, riser and temperature; the GPU is gone until a reboot",
    "power limit": "raise it ('nvidia-smi -i NUMBER -pl WATTS'): a job waits for its slowest GPU",
    "(ERR!)": "read 'dmesg' (Xid) and reboot; if it returns, check power cables, riser and slot of this GPU",
    "test 'PCIe'": "check generation and width of its link under load ('nvidia-smi -q', LnkSta), IOMMU and ACS",
    "Power Brake": "check the power supply and its cables, and the power capping of the server, which ask for it",
    "Thermal": "check cooling (fans, dust, airflow of the rack); 'nvidia-smi -q -d TEMPERATURE,PERFORMANCE' under load",
    "atomic operations": (
        "place the GPU in a slot of the processor with PCIe Gen3 or later: ports of a chipset and risers over USB "
        "often pass none"
    ),
    "cannot be assigned": "enable 'Above 4G Decoding' and Resizable BAR in the BIOS, or boot with pci=realloc",
    "no place in the address": "enable 'Above 4G Decoding' in the BIOS, or boot with pci=realloc",
    "Power": "check the power limit, cooling and clocks ('nvidia-smi -q -d POWER,PERFORMANCE') under load",
    "Gflop/s": "compare temperature, clocks and power limit of the GPUs ('nvidia-smi -q -d PERFORMANCE') under load",
    "NVSwitch": "stop all jobs, reset all GPUs together ('nvidia-smi -r') or reboot, restart the fabric manager; if "
    "the error returns, the vendor replaces the board",
    "fabric state": "check the fabric manager ('systemctl status nvidia-fabricmanager') and its version",
    "NVLink": "check 'nvidia-smi nvlink -e', the fabric manager and 'dmesg | grep Xid'; reset or reseat the GPU",
    "under load": "check slot, riser and BIOS (PCIe speed of the slot), then 'lspci -vv' (LnkSta) while the GPU works",
}
#: Providers of libfabric with remote access to memory.
_RDMA_PROVIDERS = ("efa", "cxi", "verbs", "psm", "opx")
#: Version of NCCL that finds the module nvidia_peermem by each of its names.
_FINDS_PEERMEM = (2, 23, 4)
#: Settings after which the ranks of a host use the network.
_NETWORK_BY = ("NCCL_SHM_DISABLE",)
_P2P_SETTINGS = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")
_CHECK_DIRECT_COPIES = (
    "test with NCCL_P2P_DISABLE=1, between hosts with NCCL_NET_GDR_LEVEL=0; then check IOMMU, ACS, driver, GPUs of "
    "several models, and 'nvidia-smi -q' (errors, retired pages)"
)
#: Most hosts that are named in front of a statement.
_MOST_HOSTS = 3
_CHECK_DATA = (
    "run it with another transport (UCX_TLS=ud,self, or TCP) and without direct copies of GPU memory; then check the "
    "versions of MPI and drivers, and memory errors"
)
#: Weight and remedy of causes that a run or a single line states, by their kind.
_CAUSES = {
    "fabric_manager": (
        FIRST - 1.4,
        "install the fabric manager of the driver's version and restart it ('systemctl restart nvidia-fabricmanager')",
    ),
    "no_driver": (
        FIRST - 1.4,
        "read 'dmesg': load the driver or reboot after its update; check power and slot of GPUs that are missing",
    ),
    "too_few_gpus": (
        FIRST - 0.4,
        "-g and -t count the GPUs of one process, with MPI of each rank; see 'nvidia-smi -L' and CUDA_VISIBLE_DEVICES",
    ),
    "no_mpi": (FIRST - 0.4, "build nccl-tests with MPI: make clean, then make MPI=1 MPI_HOME=DIRECTORY"),
    "stopped": (
        FIRST - 0.9,
        "if it hangs there: on one machine, test with NCCL_P2P_DISABLE=1, then check IOMMU (iommu=pt), ACS and driver",
    ),
    "stopped between hosts": (
        FIRST - 0.9,
        "if it hangs there, hosts may not reach each other: NCCL_SOCKET_IFNAME names the interface; check firewalls",
    ),
    "unfinished": (
        SYMPTOM - 0.05,
        "run only the next size (-b, -e) with NCCL_DEBUG=INFO: does it hang, and on which hosts",
    ),
    "waiting_ranks": (
        FIRST - 0.005,
        "read the logs of both ranks before the timeout; TORCH_NCCL_TRACE_BUFFER_SIZE records the last operations",
    ),
    "silent_ranks": (
        FIRST - 0.45,
        "read the log of that rank and the kernel log of its host ('dmesg': Xid, out of memory) before the timeout",
    ),
    "all_ranks_wait": (
        FIRST - 0.45,
        (
            "on one host, test with NCCL_P2P_DISABLE=1, and look for IO_PAGE_FAULT and Xid in 'dmesg' (IOMMU, access "
            "control); between hosts, check the network with nccl-tests"
        ),
    ),
    REPORTING_RANKS_WAIT: (
        FIRST - 0.45,
        (
            "if these are all ranks of the job, their data do not arrive: test with NCCL_P2P_DISABLE=1, and look for "
            "IO_PAGE_FAULT and Xid in 'dmesg'; otherwise read the log of a rank that does not report"
        ),
    ),
    "cured_by_setting NCCL_P2P_DISABLE": (
        FIRST - 0.9,
        (
            "boot with iommu=pt or without IOMMU, disable ACS of switches and root ports ('sudo lspci -vvv | "
            "grep ACSCtl'), update the driver; in a "
            "virtual machine, the host decides; until then the setting costs only time"
        ),
    ),
    "cured_by_setting NCCL_IB_DISABLE": (
        FIRST - 0.9,
        (
            "test the cards without NCCL (ib_write_bw between the hosts); NCCL_IB_HCA and NCCL_IB_GID_INDEX name card "
            "and address ('show_gids'), NCCL_NET_GDR_LEVEL=0 tests without GPUDirect RDMA"
        ),
    ),
    "cured_by_setting NCCL_SHM_DISABLE": (
        FIRST - 0.9,
        "raise the size of /dev/shm (docker run --shm-size=1g or --ipc=host), and let all processes of a host share it",
    ),
    "cured_by_setting NCCL_NVLS_ENABLE": (
        FIRST - 0.9,
        "check the fabric manager and the IMEX service of all hosts, and the version of NCCL and driver",
    ),
    "cured_by_setting NCCL_CUMEM_ENABLE": (
        FIRST - 0.9,
        "update NCCL and the driver; without cuMem, NCCL allocates its memory as before, which costs little",
    ),
    "locked_memory": (
        ACCESS,
        "ulimit -l unlimited: /etc/security/limits.conf (memlock), in containers --ulimit memlock=-1",
    ),
    "shared_core": (
        LINK,
        "bind the processes to different cores: --map-by core --bind-to core, and as many slots as cores on each host",
    ),
    "registered_memory": (
        ACCESS,
        "increase what the driver may register (for mlx4_core log_num_mtt and log_mtts_per_seg), and ulimit -l",
    ),
    "timeouts": (
        SYMPTOM,
        "check the counters and links of the fabric; MPICH_OFI_CXI_COUNTER_REPORT=5 prints the network cards",
    ),
    "lost_packets": (
        SYMPTOM,
        "check that hosts, switches and tunnels have one MTU, errors of cables ('ethtool -S'), and drops of switches",
    ),
    "far_memory": (
        LINK,
        "bind the process to the processor of its GPU: numactl -N NODE -m NODE ('nvidia-smi topo -m' lists NUMA nodes)",
    ),
    "possible_access_control": (
        MINOR,
        "add 'sudo lspci -vvv' in full, which names the ports; disable ACS of switches (BIOS, or 'setpci' on ACSCtl)",
    ),
    "narrow_link": (LINK, "reseat the card, or use another slot or riser; 'sudo lspci -vv' names the device"),
}
#: Address of the peer in a message.
_PEER = re.compile(r"\bpeer (\d{1,3}(?:\.\d{1,3}){3})\b")
#: Events of network cards that NCCL prints as warnings, and that change nothing for a run.
_HARMLESS = re.compile(r"async event : (?:port active|client reregistration|(?:GID table|LID|P_Key|SM) change)")


def stated_causes(facts: Facts) -> Iterator[Finding]:
    """Yield what a run states about itself, and what single lines of programs state about a machine."""
    of_hosts = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if fact.value.nodes > 1}
    works = any(table.rows for table in facts.values(Quantity.COLLECTIVE))
    is_one_host = any(_is_of_one_host(log) for log in facts.values(Quantity.NCCL_RUN))
    access = {fact.subject: fact for fact in facts.of(Quantity.PEER_ACCESS)}
    has_direct_copies = not access or any(not fact.value for fact in access.values())
    for fact in map(partial(_with_known_ranks, facts), facts.of(Quantity.CAUSE)):
        if fact.subject[0] == "possible_access_control" and not has_direct_copies:
            # The driver permits no direct copies, which access control would slow.
            continue
        if fact.subject[0] == "locked_memory" and (works or is_one_host):
            # Only network cards need locked memory, and this run did not fail without it.
            continue
        is_between = fact.subject[0] == "stopped" and fact.place.path in of_hosts
        weight, remedy = _weight_and_remedy(fact, is_between=is_between)
        text = f"{fact.host}: {fact.value}" if fact.host else fact.value
        cause = fact.subject[0].partition(" ")[0]
        yield Finding(cause, text, remedy, weight, origin=str(fact.place), host=fact.host)


def _with_known_ranks(facts: Facts, fact: Fact) -> Fact:
    """Return a cause; ranks that wait are all ranks of the job if another file states this number of ranks."""
    if fact.subject[0] != REPORTING_RANKS_WAIT:
        return fact
    known = {log.ranks for log in facts.values(Quantity.NCCL_RUN) if log.ranks is not None}
    if not any(f"ranks 0 to {count - 1}," in fact.value for count in known):
        return fact
    return replace(fact, value=f"{fact.value}: its data do not arrive", subject=("all_ranks_wait",))


def _weight_and_remedy(fact: Fact, *, is_between: bool) -> tuple[float, str]:
    """Return weight and remedy of a stated cause; a reader of another package states its remedy in the subject."""
    kind = "stopped between hosts" if is_between else fact.subject[0]
    if kind in _CAUSES:
        return _CAUSES[kind]
    return ACCESS, fact.subject[1] if len(fact.subject) > 1 else f"read the documentation of {fact.program}"


def wrong_results(facts: Facts) -> Iterator[Finding]:
    """Yield tables of nccl-tests with wrong results, those after the tables that are read among them."""
    tables = list(facts.of(Quantity.COLLECTIVE))
    for fact in tables:
        table: NcclTestsTable = fact.value
        if table.wrong_lines:
            text = (
                f"{len(table.wrong_lines)} of {len(table.rows) + len(table.excluded)} sizes have wrong results: data "
                "are damaged on their path, or the GPUs disagree"
            )
            origin = f"{fact.place.path}:{table.wrong_lines[0]}"
            yield Finding("wrong_results", text, _CHECK_DIRECT_COPIES, FIRST, origin=origin)
    known = {fact.place.path for fact in tables if fact.value.wrong_lines}
    for fact in facts.of(Quantity.WRONG_RESULTS):
        if fact.place.path not in known:
            remedy = _CHECK_DATA if fact.program in ("OSU", "IMB") else _CHECK_DIRECT_COPIES
            yield Finding("wrong_results", fact.value, remedy, FIRST, origin=str(fact.place))


def nccl_problems(facts: Facts) -> Iterator[Finding]:
    """Yield the warnings and errors of NCCL, each meaning once, with the remedy that is known."""
    found: dict[str, tuple[KnownProblem | None, Fact]] = {}
    excluded = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if _needs_no_verbs(fact.value, facts)}
    for fact in facts.of(Quantity.NCCL_PROBLEM):
        if _HARMLESS.search(fact.value):
            continue
        problem = known_problem(fact.value)
        if problem is not None and problem.meaning == NO_VERBS and fact.place.path in excluded:
            # The user chose TCP, or nothing shows several hosts.
            continue
        found.setdefault("" if problem is None else problem.meaning, (problem, fact))
    found = {
        meaning: one
        for meaning, one in found.items()
        if one[0] is None or not one[0].same_as or one[0].same_as not in found
    }
    found = {meaning: (_as_warning(one, fact, facts), fact) for meaning, (one, fact) in found.items()}
    failures = [one for one, _ in found.values() if one is not None and one.is_failure]
    is_explained = any(not one.is_consequence for one in failures)
    for number, (problem, fact) in enumerate(found.values(), start=1):
        quoted = shortened(fact.value, _MOST_QUOTED)
        if problem is not None and problem.is_general and is_explained:
            continue
        if problem is None:
            if all(one.is_consequence for one in failures):
                remedy = "the meaning of this message is not known here; search for it with the version of NCCL"
                # Without another cause, it is why the run failed.
                cause, weight = ("nccl_error", FIRST - number / 100) if failures else ("nccl_warning", MINOR)
                yield Finding(cause, f'NCCL warns: "{quoted}"', remedy, weight, origin=str(fact.place))
            continue
        weight = ACCESS - 0.01 * problem.is_consequence
        if problem.is_failure:
            # The first message of a log is the cause of those after it; consequences follow.
            weight = FIRST - number / 100 - 0.5 * problem.is_consequence
        cause = "nccl_error" if problem.is_failure else "nccl_warning"
        host = f" ({fact.subject[0]}{_peer_of(fact.value, facts)})" if fact.subject else ""
        yield Finding(cause, f'{problem.meaning}{host}: "{quoted}"', problem.remedy, weight, origin=str(fact.place))


def _peer_of(message: str, facts: Facts) -> str:
    """Return the host at whose address a message names the peer; empty if no log states it."""
    peer = _PEER.search(message)
    if peer is None:
        return ""
    for log in facts.values(Quantity.NCCL_RUN):
        for host, one in log.hosts.items():
            if one.interface is not None and one.interface[0].partition(":")[2] == peer[1]:
                return f", peer {host}"
    return ""


def _as_warning(problem: KnownProblem | None, fact: Fact, facts: Facts) -> KnownProblem | None:
    """Return a problem after which the run went on, also over TCP, as a warning; others as they are."""
    if problem is None:
        return None
    tables = [one.value for one in facts.of(Quantity.COLLECTIVE) if one.place.path == fact.place.path]
    if any(table.rows and table.rows[-1].line > fact.place.line for table in tables):
        return problem._replace(is_failure=False)
    runs = [run.value for run in facts.of(Quantity.NCCL_RUN) if run.place.path == fact.place.path]
    if any(log.lines.get("initialised", 0) > fact.place.line for log in runs):
        return problem._replace(is_failure=False)
    if problem.meaning not in (CARD_FAILED, OFI_REFUSED, OFI_FAILED):
        return problem
    return problem._replace(is_failure=False) if any(log.network == "Socket" for log in runs) else problem


def _needs_no_verbs(log: NcclLog, facts: Facts) -> bool:
    """Return whether a run chose TCP, or no file shows that it has several hosts."""
    if log.environment.get("NCCL_IB_DISABLE") == "1":
        return True
    has_hosts = log.nodes > 1 or any(via.startswith("NET") for via in log.transports.values())
    return not has_hosts and not any(table.hosts > 1 for table in facts.values(Quantity.COLLECTIVE))


def gpu_states(facts: Facts) -> Iterator[Finding]:
    """Yield errors and throttling of GPUs that nvidia-smi states, equal ones of several GPUs once."""
    for block in facts.blocks:
        states: dict[str, list[Fact]] = {}
        for fact in block.of(Quantity.GPU_STATE):
            if not _is_implied(block, fact):
                states.setdefault(fact.value, []).append(fact)
        for value, same in states.items():
            yield _gpu_state(block, value, same)


def _is_implied(block: Block, fact: Fact) -> bool:
    """Return whether another state of the GPU says the same, or the state is a choice for all GPUs."""
    same = {other.value for other in block.of(Quantity.GPU_STATE) if other.subject == fact.subject}
    is_repeated = fact.value in ("HW Slowdown is active", "SW Thermal Slowdown is active") and any(
        one.startswith("HW ") for one in same - {fact.value}
    )
    return is_repeated or (fact.value.startswith("power limit") and _is_limit_of_all(block))


def _gpu_state(block: Block, value: str, same: list[Fact]) -> Finding:
    """Return the finding about a state of one or several GPUs."""
    names = [_gpu(block, fact.subject[0]) for fact in same]
    is_numbered = len(same) > 1 and all(fact.subject[0].isdigit() for fact in same)
    who = f"GPUs {', '.join(fact.subject[0] for fact in same)}" if is_numbered else ", ".join(names)
    who = f"{block.host} {who}".lstrip()
    is_error = "is active" not in value and not value.startswith("power limit")
    is_of_hardware = any(word in value for word in _OF_HARDWARE)
    remedy = (_AFTER_ERRORS if is_of_hardware else _LOOK) if is_error else _AFTER_THROTTLING
    remedy = next((text for word, text in _AFTER.items() if word in value), remedy)
    # Errors, then throttling, then repeated packets; none of them is a measured rate.
    weight = LINK - 0.2 if "replays" in value else LINK if is_error else LINK - 0.1
    if "fallen off the bus" in value:
        weight = FIRST - 1.5
    elif "under load" in value:
        # It explains measured rates, which corrected errors do not.
        weight = LINK + 0.3
    cause = "gpu_errors" if is_error else "gpu_throttled"
    device = ", ".join(names)
    return Finding(cause, f"{who}: {value}", remedy, weight, origin=str(same[0].place), host=block.host, device=device)


def card_states(facts: Facts) -> Iterator[Finding]:
    """Yield ports of network cards that are down or slow, but not those that all hosts disable."""
    disabled = _disabled_everywhere(facts)
    alike: dict[tuple[str, str, str, str], list[Fact]] = {}
    for fact in (*facts.of(Quantity.CARD_STATE), *slow_ports(facts)):
        if "Disabled" not in fact.value or fact.subject not in disabled:
            # Other states have no words for several cards.
            name = "" if fact.value.partition(" ")[0] in _OF_SEVERAL else fact.subject[0]
            alike.setdefault((fact.place.path, fact.host, fact.value, name), []).append(fact)
    for same in alike.values():
        fact, names = same[0], list(dict.fromkeys(fact.subject[0] for fact in same))
        cards = listed(names, _MOST_HOSTS)
        is_down = fact.value.startswith("is ")
        remedy = next((text for word, text in _AFTER_CARDS.items() if word in fact.value), _AFTER_CABLES)
        if is_down and remedy == _AFTER_CABLES:
            remedy += "; a port that no job should use may stay down"
        verb, _, rest = fact.value.partition(" ")
        state = fact.value if len(names) == 1 else f"{_OF_SEVERAL[verb]} {rest}"
        yield Finding(
            "network_port",
            f"{_start(fact)}{cards} {state}",
            remedy,
            ACCESS if is_down else LINK,
            origin=str(fact.place),
            host=fact.host,
            device=cards,
        )


def _disabled_everywhere(facts: Facts) -> set[tuple[str, ...]]:
    """Return the ports that all of several hosts disable, if each host has another active port."""
    hosts = {fact.host for fact in facts.of(Quantity.PORT)}
    active = {fact.host for fact in facts.of(Quantity.PORT_RATE)}
    of_port: dict[tuple[str, ...], set[str]] = {}
    for fact in facts.of(Quantity.CARD_STATE):
        if "Disabled" in fact.value:
            of_port.setdefault(fact.subject, set()).add(fact.host)
    return {port for port, found in of_port.items() if len(found) > 1 and found == hosts == active}


def _start(fact: Fact) -> str:
    """Return the host in front of a card: of its name, or of the words about a card without one."""
    divider = ": " if fact.subject[0].startswith("a ") else " "
    return f"{fact.host}{divider}" if fact.host else ""


def _gpu(block: Block, number: str) -> str:
    if not number.isdigit():
        return number
    address = block.addresses.get(number)
    return f"GPU {number} ({address})" if address else f"GPU {number}"


def _is_limit_of_all(block: Block) -> bool:
    """Return whether all GPUs of a report have a power limit below the default: a choice, no fault of one of them."""
    limited = {fact.subject for fact in block.of(Quantity.GPU_STATE) if fact.value.startswith("power limit")}
    return len(limited) == len({fact.subject for fact in block.of(Quantity.GPU_MODEL)})


def _on(hosts: Sequence[str]) -> str:
    """Return the hosts in front of what is the same on them, if the text names them."""
    return f"{listed(hosts, _MOST_HOSTS)}: " if hosts else ""


def stated(facts: Facts) -> Iterator[str]:
    """Yield what the files state about runs and GPUs, each fact once with its place."""
    for fact in _whole_runs(facts):
        text = _run_text(fact.value)
        if text:
            yield f"{text} ({fact.place})"
        card = _only_card(fact.value)
        if card:
            yield f"{card} ({fact.place})"
    lines: dict[str, str] = {}
    #: Place of each statement by host.
    of_hosts: dict[str, dict[str, str]] = {}
    for fact in facts.of(Quantity.COLLECTIVE):
        table: NcclTestsTable = fact.value
        if table.library is not None and not any(log.version for log in facts.values(Quantity.NCCL_RUN)):
            lines.setdefault(f"NCCL {'.'.join(map(str, table.library))}", str(fact.place))
        if table.hosts > 1 and not any(log.ranks == table.ranks for log in facts.values(Quantity.NCCL_RUN)):
            lines.setdefault(f"{table.ranks} ranks on {table.hosts} nodes", str(fact.place))
    for block in facts.blocks:
        if block.program == "nvidia-smi -q" and block.facts and not block.of(Quantity.GPU_STATE) and not block.problems:
            count = len({fact.subject for fact in block.of(Quantity.GPU_ADDRESS)})
            is_capped = any(CAPPED in fact.value for fact in block.of(Quantity.NOTE))
            what = "errors" if is_capped else "errors or throttling"
            gpus = "1 GPU" if count == 1 else f"{count} GPUs"
            of_hosts.setdefault(f"{gpus} without {what}", {}).setdefault(block.host, block.place.path)
    for fact in facts.of(Quantity.NOTE):
        of_hosts.setdefault(fact.value, {}).setdefault(fact.host, str(fact.place))
    for text, places in of_hosts.items():
        lines.setdefault(f"{_on([host for host in places if host])}{text}", next(iter(places.values())))
    models = Counter[str]()
    for block in facts.blocks:
        models |= Counter(_model_name(fact.value) for fact in block.of(Quantity.GPU_MODEL))
        for fact in block.of(Quantity.GPU_STATE):
            if fact.value.startswith("power limit") and _is_limit_of_all(block):
                lines.setdefault(f"{_gpu(block, fact.subject[0])}: {fact.value}", str(fact.place))
    yield from (f"{text} ({place})" for text, place in lines.items())
    if len(models) > 1:
        yield f"GPUs of several models: {', '.join(f'{count} x {name}' for name, count in models.items())}"


def _transport_name(words: str) -> str:
    """Return a transport without the number of its device, and whether it uses GPUDirect RDMA."""
    return "/".join(words.split("/")[:2]) + ("/GDRDMA" if "GDRDMA" in words else "")


def _model_name(name: str) -> str:
    """Return the words of a GPU model, which programs print in different forms."""
    return gpu_model(name).words.upper() if is_known_gpu(name) else name


def _run_text(log: NcclLog) -> str:
    """Return version, ranks, nodes, transports and settings of a log."""
    parts = [] if log.version is None else [f"NCCL {'.'.join(map(str, log.version))}"]
    if log.ranks is not None:
        hosts = f"on {log.nodes} nodes" if log.nodes > 1 else "on 1 node" if _is_of_one_host(log) else "(log of 1 host)"
        parts.append(f"{log.ranks} ranks {hosts}")
    via = Counter(_transport_name(words) for words in log.transports.values())
    if via:
        parts.append("hops via " + ", ".join(f"{name} ({count})" for name, count in via.most_common(4)))
    if log.network and not _is_of_one_host(log):
        parts.append(f"network {log.network}{' (TCP)' if log.network == 'Socket' else ''}")
    if "no verbs" in log.lines and not _is_of_one_host(log):
        parts.append("no InfiniBand or RoCE card usable")
    if "no NVLS" in log.lines:
        parts.append("no NVLink SHARP (NVLS multicast support is not available)")
    for name, value in list(log.environment.items())[:_MOST_SETTINGS]:
        is_off = value.upper() in SWITCHED_OFF.get(name, ()) and not any(log.uses_p2p.values())
        parts.append(f"{name}={value}" + (" (no direct copies between GPUs)" if is_off else ""))
    return ", ".join(parts)


def log_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what NCCL states about hosts, direct copies and its search."""
    yield from _unequal_hosts(facts)
    tables = facts.values(Quantity.COLLECTIVE)
    for fact in _whole_runs(facts):
        is_of_tables = bool(tables) and all(table.hosts == 1 for table in tables)
        is_one_host = (_is_of_one_host(fact.value) or is_of_tables) and not any(table.hosts > 1 for table in tables)
        yield from _of_run(fact, facts, is_one_host=is_one_host)
        if fact.value.ranks == 1 and fact.value.nodes > 1:
            yield _single_ranks(fact)
        is_unreached = any("onnect" in one for one in facts.values(Quantity.NCCL_PROBLEM))
        # Hosts of one link can reach each other at addresses of this link.
        if _uses_local_interface(fact.value) and (is_unreached or _OF_LINK not in fact.value.local_interface):
            yield _local_interface(fact, is_unreached=is_unreached)


def _single_ranks(fact: Fact) -> Finding:
    """Return the finding that the processes of several hosts do not know each other."""
    text = f"each process has rank 0 of 1 rank on {fact.value.nodes} hosts: every process runs by itself"
    weight, remedy = _CAUSES["no_mpi"]
    return Finding("no_mpi", text, remedy, weight, origin=str(fact.place))


#: Address that the hosts of one link reach.
_OF_LINK = "fe80"


def _uses_local_interface(log: NcclLog) -> bool:
    """Return whether a run that did not begin sends to other hosts over the interface of its host."""
    is_between = log.nodes > 1 or (
        not _is_of_one_host(log) and any(via.startswith("NET") for via in log.transports.values())
    )
    return is_between and bool(log.local_interface) and "initialised" not in log.lines


def _local_interface(fact: Fact, *, is_unreached: bool) -> Finding:
    """Return the finding that a run of several hosts uses the interface of one host, which may be why it fails."""
    hosts = f"{fact.value.nodes} hosts" if fact.value.nodes > 1 else "several hosts"
    return Finding(
        "local_interface",
        f"NCCL uses in a run of {hosts} the interface {fact.value.local_interface}",
        "NCCL_SOCKET_IFNAME=^lo,docker0, or with the name of the interface between the hosts",
        FIRST - 0.005 if is_unreached else ACCESS + 0.2,
        origin=f"{fact.place.path}:{fact.value.lines['local interface']}",
    )


def _whole_runs(facts: Facts) -> list[Fact]:
    """Return the runs of NCCL; logs with few hops each, of single ranks or hosts, are one run with all their hops."""
    parts: dict[object, list[Fact]] = {}
    for number, fact in enumerate(facts.of(Quantity.NCCL_RUN)):
        log: NcclLog = fact.value
        is_part = log.ranks is not None and len(log.hosts) == 1 and 0 < len(log.transports) < log.ranks / 2
        parts.setdefault((log.ranks, log.nodes, log.version) if is_part else number, []).append(fact)
    runs = []
    for same in parts.values():
        transports = {hop: via for fact in same for hop, via in fact.value.transports.items()}
        # Both ends of a hop state it; logs that state it more often are of several runs.
        if len(same) > 1 and sum(len(fact.value.transports) for fact in same) <= 2 * len(transports):
            runs.append(replace(same[0], value=replace(same[0].value, transports=transports)))
        else:
            runs += same
    return runs


def _is_of_one_host(log: NcclLog) -> bool:
    """Return whether a log shows that all ranks are on one host: it states so, or lists their different GPUs."""
    if log.nodes != 1:
        return False
    addresses = set(log.bus_ids.values())
    ends = [{hop[place] for hop in log.transports} for place in (0, 1)]
    # A ring that is closed within the lines of one host has no rank elsewhere, if all ends of its hops print them.
    over_network = {source for (source, _), via in log.transports.items() if via.startswith("NET")}
    prints_all = not log.sends or over_network == {source for source, _ in log.sends}
    is_closed = len(log.hosts) == 1 and len(ends[0]) > 1 and ends[0] == ends[1] and prints_all
    return log.states_nodes or len(addresses) == len(log.bus_ids) == log.ranks or is_closed


#: What the hosts of a job should state alike: the words for a value, and the remedy where a host differs.
_OF_HOSTS = (
    ("version", "{} runs NCCL {}", "install the same version of NCCL on all hosts"),
    ("network", "{} uses the network {}", "install rdma-core and the driver of its cards, and pass /dev/infiniband"),
    (
        "plugin",
        "{} uses {} for the network",
        "use the same plugins and LD_LIBRARY_PATH on all hosts, or NCCL_NET_PLUGIN=none: different ones cannot connect",
    ),
    ("cards", "{} lists {} network cards", "check 'ibstat', cables, NCCL_IB_HCA and the devices of the container"),
    ("gpudirect", "{} sends {} GPUDirect RDMA", "load nvidia-peermem (or use DMA-BUF), and check ACS above its cards"),
)


#: Each host of a job with the file and the statements of its log.
_Hosts = dict[str, tuple[str, HostStatements]]


def _jobs(facts: Facts) -> list[_Hosts]:
    """Return the hosts of each job: of a log of several hosts, or of logs for each host of a job of several nodes."""
    jobs: dict[object, _Hosts] = {}
    for fact in facts.of(Quantity.NCCL_RUN):
        hosts = {host: (fact.place.path, one) for host, one in fact.value.hosts.items()}
        is_whole = len(hosts) >= fact.value.nodes
        job = fact.place.path if fact.value.nodes <= 1 or is_whole else fact.value.ranks
        # Two logs of a host are of two runs.
        if hosts.keys() & jobs.get(job, {}).keys():
            job = (job, fact.place.path)
        jobs.setdefault(job, {}).update(hosts)
    return list(jobs.values())


def _variables_of_some_hosts(hosts: _Hosts) -> Iterator[Finding]:
    """Yield variables of NCCL that some hosts of a job set otherwise than the others."""
    stating = {host: one for host, (_, one) in hosts.items() if one.environment and one.network}
    silent = [host for host, (_, one) in hosts.items() if one.network and not one.environment]
    names = dict.fromkeys(name for one in stating.values() for name in one.environment)
    for name in names:
        values = {host: one.environment[name] for host, one in stating.items() if name in one.environment}
        counts = Counter(value for value, _ in values.values())
        rare, count = min(counts.items(), key=lambda one: one[1])
        # Of a variable on one host, lines of the others may be left out.
        without = silent if len(values) > 1 else []
        if len(values) == len(stating) and len(counts) == 1 and not without:
            continue
        of_rare = [host for host, (value, _) in values.items() if value == rare]
        total = len(stating) + len(without)
        text = f"{name}={rare} is set on {count} of {total} hosts ({', '.join(of_rare[:_MOST_SETTINGS])})"
        if without and len(counts) == 1:
            text += f", not on {listed(without, _MOST_SETTINGS)}"
        others = dict.fromkeys(value for value in counts if value != rare)
        text += f", on others {', '.join([*others][:_MOST_SETTINGS])}" if others else ""
        path, line = hosts[of_rare[0]][0], values[of_rare[0]][1]
        remedy = f"set {name} alike on all hosts, or on none: unequal settings can stop a job"
        yield Finding("host_differs_settings", text, remedy, ACCESS + 0.1, origin=f"{path}:{line}")


#: Values that are worse, whatever most hosts state.
_WORSE = {"gpudirect": "without", "network": "Socket"}


def _unequal_hosts(facts: Facts) -> Iterator[Finding]:
    """Yield what some hosts of a communicator state differently from the others, also in a log for each host."""
    stopped = {fact.place.path for fact in facts.of(Quantity.CAUSE) if fact.subject[0].startswith("stopped")}
    works = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if "initialised" in fact.value.lines}
    for hosts in _jobs(facts):
        yield from _variables_of_some_hosts(hosts)
        if not works & {path for path, _ in hosts.values()}:
            yield from _interfaces(hosts, stopped)
        for name, words, remedy in _OF_HOSTS:
            stated = {host: (getattr(one, name), path) for host, (path, one) in hosts.items() if getattr(one, name)}
            values = Counter(found[0] for found, _ in stated.values())
            if len(values) < 2:
                continue
            usual = _usual(name, values)
            different = {host: one for host, one in stated.items() if one[0][0] != usual}
            if name == "cards":
                different = {host: one for host, one in different.items() if int(one[0][0]) < int(usual)}
            if not different:
                continue
            missing = _missing_cards(hosts, different, usual) if name == "cards" else ""
            others = [host for host, one in stated.items() if one[0][0] == usual]
            unlike = [words.format(host, found[0]) for host, (found, _) in list(different.items())[:_MOST_SETTINGS]]
            who = others[0] if len(others) == 1 else f"each of {len(others)} other hosts"
            text = f"{', '.join(unlike)}{missing}; {words.format(who, usual)}".replace(
                " 1 network cards", " 1 network card"
            )
            (_, line), path = min(different.values(), key=lambda one: one[0][1])
            where, on = f"{path}:{line}", ", ".join(different)
            yield Finding(f"host_differs_{name}", text, remedy, ACCESS + 0.1, origin=where, host=on)


def _missing_cards(hosts: _Hosts, different: Mapping[str, object], usual: str) -> str:
    """Return the names of the cards that the first host lacks, if hosts name their cards alike."""
    host = next(iter(different))
    here = set(hosts[host][1].card_names)
    others = {one.card_names for _, one in hosts.values() if one.cards is not None and one.cards[0] == usual}
    names = others.pop() if len(others) == 1 else ()
    lost = [name for name in names if name not in here]
    return f" ({listed(lost, _MOST_SETTINGS)} missing)" if lost and here < set(names) else ""


#: Addresses that exist on every host, or on one link only.
_OWN = re.compile(r"127\.|::1\b")
_LOCAL = re.compile(r"127\.|fe80|169\.254\.|172\.17\.|::1\b")


def _interfaces(hosts: _Hosts, stopped: set[str]) -> Iterator[Finding]:
    """Yield interfaces over which hosts find each other, if they differ or one has no address for other hosts.

    Names may differ on hosts of one network, and local addresses work on one link: they are a cause in files of runs
    that `stopped`, or if two hosts have the same one.
    """
    used = {host: (one.interface, path) for host, (path, one) in hosts.items() if one.interface}
    addresses = Counter(interface.partition(":")[2] for (interface, _), _ in used.values())
    names = {interface.partition(":")[0] for (interface, _), _ in used.values()}
    local = [
        host
        for host, ((interface, _), path) in used.items()
        if (address := interface.partition(":")[2])
        and _LOCAL.match(address)
        and (_OWN.match(address) or path in stopped or addresses[address] > 1)
    ]
    if len(used) < 2 or (len(names) < 2 and not local):
        return
    (_, line), path = used[local[0] if local else next(iter(used))]
    listed_hosts = [f"{host} {interface.partition(':')[0]}" for host, ((interface, _), _) in used.items()]
    text = f"the hosts find each other over different interfaces ({listed(listed_hosts, _MOST_SETTINGS)})"
    if local:
        text = f"other hosts cannot reach {local[0]} at its address ({used[local[0]][0][0]})"
    remedy = "NCCL_SOCKET_IFNAME names an interface of the same network on all hosts ('ip -brief address')"
    weight = ACCESS + 0.1 if local or path in stopped else MINOR
    yield Finding("host_differs_interface", text, remedy, weight, origin=f"{path}:{line}")


def _usual(name: str, values: Counter[str]) -> str:
    """Return the value that hosts should have: that of most hosts, but no worse value; of equal counts, more cards."""
    if name == "cards":
        return max(values, key=lambda value: (values[value], int(value)))
    good = Counter({value: count for value, count in values.items() if value != _WORSE.get(name)})
    return (good or values).most_common(1)[0][0]


def _between_nodes(log: NcclLog, place: Callable[..., str], gpudirect: str, *, is_one_host: bool) -> Iterator[Finding]:
    """Yield networks between nodes that are slower than InfiniBand or RoCE with GPUDirect."""
    network = [via for via in log.transports.values() if via.startswith("NET")]
    # Without the number of nodes, a hop over the network shows that there are several.
    if _is_of_one_host(log) or is_one_host:
        return
    if not network and "no GDR" in log.lines and "GDR" not in log.lines:
        yield Finding(
            "no_gpudirect",
            "NCCL states that GPUDirect RDMA is disabled for its cards: between nodes, data pass through host memory",
            gpudirect,
            ACCESS,
            origin=place("no GDR"),
        )
    is_chosen = log.environment.get("NCCL_NET", "").lower() == "socket" and log.network in ("", "Socket")
    if is_chosen and not network:
        text = "NCCL_NET=Socket is set: data between nodes pass through TCP, without InfiniBand or RoCE"
        yield Finding("tcp_between_nodes", text, _sockets_remedy(log), ACCESS, origin=place("NCCL_NET"))
        return
    if not (network or (log.network and log.nodes > 1)):
        return
    if _uses_local_interface(log) and _OF_LINK not in log.local_interface:
        return
    if (network and all("Socket" in via for via in network)) or (not network and log.network == "Socket"):
        yield Finding(
            "tcp_between_nodes",
            "the hops between nodes use TCP sockets (NET/Socket)",
            _sockets_remedy(log),
            ACCESS,
            origin=place("NCCL_IB_DISABLE", "no verbs", "NET"),
        )
    selected = list(_selected_cards(log, place))
    yield from selected
    yield from _mixed_cards(log, place)
    shared = _shared_cards(log)
    # With fewer cards than GPUs, some share one.
    if shared and not selected:
        card, ranks, line = shared
        yield Finding(
            "shared_network_card",
            f"ranks {', '.join(map(str, ranks))} of one node send over the same network card (NET/{card}), other cards "
            "are used by one rank",
            "check the topology (two GPUs below one card, or a virtual switch that hides the order of the cards); "
            "NCCL_TOPO_FILE with a corrected file, or NCCL_IB_HCA",
            ACCESS,
            origin=place("NET") if line is None else f"{place('NET').rpartition(':')[0]}:{line}",
        )
    if log.provider and not any(name in log.provider.lower() for name in _RDMA_PROVIDERS):
        yield Finding(
            "libfabric_provider",
            f"libfabric uses the provider {log.provider}, not EFA: data pass through TCP and host memory",
            "FI_PROVIDER=efa; check the EFA devices of the container, the EFA installer and the security group",
            ACCESS + 0.1,
            origin=place("provider"),
        )
        return
    over_cards = [via for via in network if "Socket" not in via]
    if over_cards and "Libfabric" in over_cards[0] and not any("GDR" in via for via in over_cards):
        text = f"no hop between nodes uses GPUDirect RDMA (via {over_cards[0]}): data pass through host memory"
        remedy = "a libfabric with CUDA ('fi_info -p efa -c FI_HMEM'), on a type of instance that has GPUDirect RDMA"
        yield Finding("no_gpudirect", text, remedy, ACCESS, origin=place("NET"))
    elif over_cards and not any("GDR" in via for via in over_cards):
        yield Finding(
            "no_gpudirect",
            f"no hop between nodes uses GPUDirect RDMA (via {over_cards[0]}): data pass through host memory",
            gpudirect,
            ACCESS,
            origin=place("NET"),
        )
    else:
        yield from _partly_without_gpudirect(log, place, gpudirect)


def _partly_without_gpudirect(log: NcclLog, place: Callable[..., str], gpudirect: str) -> Iterator[Finding]:
    """Yield the cards of few hops between nodes that do not use GPUDirect RDMA, unlike most others."""
    hops = {hop: via for hop, via in log.transports.items() if via.startswith("NET/IB/")}
    without = {hop: via for hop, via in hops.items() if "GDR" not in via}
    if not without or 2 * len(without) >= len(hops):
        return
    cards = sorted({"/".join(via.split("/")[:3]).partition("(")[0] for via in without.values()})
    ranks = sorted({source for source, _ in without})
    line = next((log.sends[hop] for hop in without if hop in log.sends), None)
    who = f"rank {ranks[0]} sends" if len(ranks) == 1 else f"ranks {listed(list(map(str, ranks)), _MOST_SETTINGS)} send"
    yield Finding(
        "some_without_gpudirect",
        f"{who} without GPUDirect RDMA over {listed(cards, _MOST_SETTINGS)}, {len(hops) - len(without)} other hops "
        "between nodes use it: their data pass through host memory",
        gpudirect,
        ACCESS,
        origin=place("NET") if line is None else f"{place('NET').rpartition(':')[0]}:{line}",
    )


def _sockets_remedy(log: NcclLog) -> str:
    """Return what permits InfiniBand or RoCE: first without a setting that excludes it."""
    if log.environment.get("NCCL_NET", "").lower() == "socket":
        return "unset NCCL_NET, if the nodes have InfiniBand or RoCE cards"
    if log.environment.get("NCCL_IB_DISABLE") == "1":
        return "unset NCCL_IB_DISABLE, if the nodes have InfiniBand or RoCE cards"
    return (
        "where the nodes have InfiniBand or RoCE cards: install rdma-core, pass /dev/infiniband to the container; on "
        "AWS the OFI plugin"
    )


def _gpudirect_remedy(log: NcclLog, *, is_loaded: bool) -> str:
    """Return what permits GPUDirect RDMA: first without a setting that excludes it, then its module unless loaded."""
    level = log.environment.get("NCCL_NET_GDR_LEVEL", "").upper()
    if level and level not in ("SYS", "5", "PHB", "4"):
        return f"unset NCCL_NET_GDR_LEVEL, which is {level} and excludes more distant cards"
    # NVIDIA/nccl#1676: the module has another name since drivers of 2022.
    of_module = "" if is_loaded else "load nvidia-peermem (or use DMA-BUF); "
    if log.version is not None and log.version < _FINDS_PEERMEM:
        update = f"update NCCL: versions before {'.'.join(map(str, _FINDS_PEERMEM))} may miss it"
        of_module += f"nvidia-peermem is loaded: {update}; " if is_loaded else f"if it is loaded, {update}; "
    more = "" if level in ("SYS", "5") else "; NCCL_NET_GDR_LEVEL=SYS permits it for distant cards"
    return f"{of_module}check ACS between GPU and card{more}"


def _selected_cards(log: NcclLog, place: Callable[..., str]) -> Iterator[Finding]:
    """Yield a setting that leaves fewer network cards than GPUs of a node."""
    per_node = (log.ranks or 0) // max(log.nodes, 1)
    selected = log.environment.get("NCCL_IB_HCA", "")
    if log.nodes < 2 or log.cards is None or not selected or log.cards >= per_node:
        return
    text = (
        f"NCCL_IB_HCA={selected} leaves {log.cards} network card{'s' if log.cards > 1 else ''} for the {per_node} GPUs"
    )
    yield Finding(
        "few_network_cards",
        f"{text} of a node{_about_names(log, selected)}",
        "if the node has more cards of this network, unset NCCL_IB_HCA or list all of them",
        ACCESS,
        origin=place("cards"),
    )


def _about_names(log: NcclLog, selected: str) -> str:
    """Return what a selection of cards says about single names: that no card has it, or that it is a prefix."""
    names = [name.partition(":")[0] for name in selected.lstrip("^=").split(",")]
    used = {name for host in log.hosts.values() for name in host.card_names}
    unknown = [name for name in names if not any(one.startswith(name) for one in used)]
    if unknown and used and not selected.startswith("^"):
        return f"; none of its cards is {listed(unknown, _MOST_SETTINGS)}"
    if "=" in selected:
        return ""
    if selected.startswith("^"):
        # The cards that it leaves out are not printed; a node has rarely more than 19.
        wide = next((name for name in names if re.search(r"\D1$", name)), "")
        return f"; names are prefixes: {wide} would also exclude {wide}0, '^={wide}' is exact" if wide else ""
    others = sorted(used - set(names))
    longer = next(((name, one) for name in names if name in used for one in others if one.startswith(name)), None)
    return "" if longer is None else f"; names are prefixes: {longer[0]} matches {longer[1]}, '={longer[0]}' is exact"


def _mixed_cards(log: NcclLog, place: Callable[..., str]) -> Iterator[Finding]:
    """Yield cards of InfiniBand among those of RoCE, or the reverse: they may be of separate networks."""
    odd = next((host.odd_cards for host in log.hosts.values() if host.odd_cards), ())
    if odd:
        names = ", ".join(odd[:_MOST_SETTINGS])
        text = f"NCCL uses InfiniBand and RoCE together (the fewer are {names}), which may be separate networks"
        yield Finding(
            "mixed_cards", text, f"NCCL_IB_HCA=^{','.join(odd)} leaves them out", MINOR, origin=place("cards")
        )


def _only_card(log: NcclLog) -> str:
    """Return a text if all GPUs of each node send over one network card; empty otherwise."""
    users = _users_of_cards(log)
    nodes = {node for node, _ in users}
    if not users or len(users) > len(nodes) or min(len(ranks) for ranks in users.values()) < 2:
        return ""
    return (
        f"all {(log.ranks or 0) // max(log.nodes, 1)} GPUs of a node send over one network card: its rate (Gbit/s "
        "divided by 8) is the ceiling of large sizes, two thirds of it if the card is not below the switch of the "
        "GPUs; compare the last rows, as 'Avg bus bandwidth' is the mean over all sizes"
    )


def _users_of_cards(log: NcclLog) -> dict[tuple[int, str], set[int]]:
    """Return the ranks that send to other nodes, by node and network card."""
    per_node = (log.ranks or 0) // max(log.nodes, 1)
    users: dict[tuple[int, str], set[int]] = {}
    for (source, target), via in log.transports.items():
        if via.startswith("NET/IB/") and per_node and source // per_node != target // per_node:
            # "NET/IB/4(12)/GDRDMA" is card 4, to which rank 12 forwards.
            users.setdefault((source // per_node, via.split("/")[2].partition("(")[0]), set()).add(source)
    return users


def _shared_cards(log: NcclLog) -> tuple[str, list[int], int | None] | None:
    """Return the card that several ranks of a node use while others are used by one, and the line of one of them."""
    users = _users_of_cards(log)
    counts = {key: len(ranks) for key, ranks in users.items()}
    if not counts or max(counts.values()) == min(counts.values()):
        return None
    most = max(counts, key=lambda key: counts[key])
    lines = [line for (source, _), line in log.sends.items() if source in users[most]]
    return f"IB/{most[1]}", sorted(users[most]), min(lines, default=None)


def _of_run(fact: Fact, facts: Facts, *, is_one_host: bool) -> Iterator[Finding]:
    log: NcclLog = fact.value
    has_tables = bool(facts.values(Quantity.COLLECTIVE))
    modules = facts.values(Quantity.PEER_MODULE)
    gpudirect = _gpudirect_remedy(log, is_loaded=bool(modules) and all(modules))

    def place(*words: str) -> str:
        line = next((log.lines[word] for word in words if word in log.lines), fact.place.line)
        return f"{fact.place.path}:{line}"

    # Ranks beyond the largest communicator are of a log that holds several.
    over_network = [
        pair
        for pair, via in log.transports.items()
        if via.startswith("NET") and (log.ranks is None or max(pair) < log.ranks)
    ]
    if over_network and is_one_host:
        one, other = over_network[0]
        disabled = [f"{name}=1" for name in _NETWORK_BY if log.environment.get(name) == "1"]
        yield Finding(
            "network_in_host",
            f"NCCL uses the network for {len(over_network)} hops within one host (for example {one} to {other})"
            + (f", because {' and '.join(disabled)} is set" if disabled else ""),
            f"unset {' '.join(name.partition('=')[0] for name in disabled)}"
            if disabled
            else "permit shared memory: in a container --ipc=host or a larger --shm-size",
            FIRST - 2,
            origin=place(*(name.partition("=")[0] for name in disabled), "NET"),
        )
    yield from _between_nodes(log, place, gpudirect, is_one_host=is_one_host)
    if log.disabled_pairs:
        _, one, other = min(log.disabled_pairs)
        count = len(log.disabled_pairs)
        yield Finding(
            "no_peer_access",
            f"NCCL states that direct copies are disabled between GPUs {one} and {other}"
            + (
                f", and between {count - 1} other pairs"
                if count > 2
                else ", and between one other pair"
                if count == 2
                else ""
            )
            + ": data pass through host memory",
            "check driver, IOMMU and ACS; 'nvidia-smi topo -p2p r' names the reason",
            ACCESS,
            origin=place("disabled"),
        )
    elif len(log.uses_p2p) > 1 and not any(log.uses_p2p.values()) and not has_tables:
        # With a table, the forecast states the cause and the time that it costs.
        settings = [f"{name}={log.environment[name]}" for name in _P2P_SETTINGS if name in log.environment]
        remedy = (
            "'nvidia-smi topo -p2p r' states which pairs have peer access; for other cards, check driver, IOMMU and ACS"
        )
        yield Finding(
            "no_direct_copies",
            f"NCCL uses host memory (SHM) for all {len(log.uses_p2p)} hops of its log: no copy between GPUs is direct"
            + ("" if settings else ", which is normal for GeForce cards with NVIDIA's driver"),
            f"remove {' and '.join(settings)}" if settings else remedy,
            ACCESS if settings else MINOR,
            origin=place("SHM"),
        )
