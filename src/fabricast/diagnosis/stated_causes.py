"""Causes that a run or a single line states, and wrong results, with what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.nccl_hosts import is_of_one_host
from fabricast.diagnosis.weights import ACCESS, FIRST, LINK, MINOR, SYMPTOM
from fabricast.nccl.records import NcclTestsTable
from fabricast.sources.pytorch_watchdog import REPORTING_RANKS_WAIT

_MOST_RANKS = 4
_WHOLE_ADDRESS = re.compile(r"(?:0x)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}")
_CHECK_DIRECT_COPIES = (
    "test with NCCL_P2P_DISABLE=1, between hosts with NCCL_NET_GDR_LEVEL=0; then check IOMMU, ACS, driver, GPUs of "
    "several models, and 'nvidia-smi -q' (errors, retired pages)"
)
_CHECK_DATA = (
    "run it with another transport (UCX_TLS=ud,self, or TCP) and without direct copies of GPU memory; then check the "
    "versions of MPI and drivers, and memory errors"
)
_READ_LOGS = (
    "read their logs: they ended, never started, or the program calls the operation on some ranks only (as below "
    "'if rank == 0')"
)
_RAISE_SHARED_MEMORY = (
    "docker run --shm-size=8g or --ipc=host; in Kubernetes an emptyDir with medium Memory at /dev/shm"
)
#: Weight and remedy of causes that a run or a single line states, by their kind.
CAUSES = {
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
        "read the logs of these ranks before the timeout; TORCH_NCCL_TRACE_BUFFER_SIZE records the last operations",
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
    "cuda_error": (
        FIRST - 0.4,
        "read 'sudo dmesg' (Xid) of the host; check driver, fabric manager and permissions of the container",
    ),
    "shared_memory_of_hosts": (
        FIRST - 0.4,
        (
            "memory of several hosts needs one NVLink domain and its IMEX service on all of them ('nvidia-imex-ctl "
            "-N', 'nvidia-smi -q', Fabric), in containers a channel of it (/dev/nvidia-caps-imex-channels)"
        ),
    ),
    "host_memory": (
        FIRST - 0.45,
        "more memory for host, container or job, or fewer and smaller processes; 'dmesg' (oom-kill) names what ended",
    ),
    "missing_processes": (
        FIRST - 0.45,
        (
            "read the log of a process that did not come; compare WORLD_SIZE (--nnodes, --nproc_per_node), MASTER_ADDR "
            "and MASTER_PORT of all hosts, and the firewall"
        ),
    ),
    "other_job": (
        FIRST - 0.45,
        (
            "end the processes of the earlier start on all hosts, or choose another MASTER_PORT; WORLD_SIZE must be "
            "the number of all processes"
        ),
    ),
    "missing_ranks": (FIRST - 0.45, _READ_LOGS),
    "late_ranks": (ACCESS, f"if the run hangs, {_READ_LOGS}"),
    "different_calls": (
        FIRST - 0.45,
        (
            "all ranks must call the same operations with the same shapes in one order: look for branches on the rank, "
            "and for data of unequal length"
        ),
    ),
    "unused_parameters": (
        FIRST - 0.45,
        "find_unused_parameters=True of DistributedDataParallel, or use all parameters in each iteration",
    ),
    "old_kernel": (MINOR, "use Linux 5.5 or later"),
    "waiting_worker": (
        ACCESS,
        (
            "print the stacks of the workers ('py-spy dump --pid PID'); if they wait in NCCL, test with "
            "NCCL_P2P_DISABLE=1, and add NCCL_DEBUG=INFO"
        ),
    ),
    "open_files": (FIRST - 0.9, "ulimit -n 65536 before the start, on all hosts"),
    "device_numbers": (
        FIRST - 0.45,
        (
            "the number counts the GPUs that the process sees: with --gpus-per-task or one GPU in CUDA_VISIBLE_DEVICES "
            "use 0 (JAX: local_device_ids=[0]), or --gpus-per-node; otherwise check the number of ranks"
        ),
    ),
    "small_shared_memory": (FIRST - 0.9, _RAISE_SHARED_MEMORY),
    "little_shared_memory": (MINOR, _RAISE_SHARED_MEMORY),
    "full_shared_memory": (ACCESS, f"remove old segments (nccl-*, vader*) from /dev/shm; {_RAISE_SHARED_MEMORY}"),
    "locked_memory": (
        ACCESS,
        "ulimit -l unlimited: /etc/security/limits.conf (memlock), in containers --ulimit memlock=-1",
    ),
    "late_process": (
        MINOR,
        "name it by runs on half of the hosts, then check that host: other jobs, throttled clocks, binding, 'dmesg'",
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


def stated_causes(facts: Facts) -> Iterator[Finding]:
    """Yield what a run states about itself, and what single lines of programs state about a machine."""
    of_hosts = {fact.place.path for fact in facts.of(Quantity.NCCL_RUN) if fact.value.nodes > 1}
    works = any(table.rows for table in facts.values(Quantity.COLLECTIVE))
    has_results = works or any(facts.of(Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME))
    is_one_host = any(is_of_one_host(log) for log in facts.values(Quantity.NCCL_RUN))
    access = {fact.subject: fact for fact in facts.of(Quantity.PEER_ACCESS)}
    has_direct_copies = not access or any(not fact.value for fact in access.values())
    for fact in map(partial(_with_known_ranks, facts), facts.of(Quantity.CAUSE)):
        if fact.subject[0] == "possible_access_control" and not has_direct_copies:
            # The driver permits no direct copies, which access control would slow.
            continue
        if fact.subject[0] == "locked_memory" and (works or is_one_host):
            # Only network cards need locked memory, and this run did not fail without it.
            continue
        if fact.subject[0] in ("little_shared_memory", "full_shared_memory") and has_results:
            # The run has results with it.
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
    if kind in CAUSES:
        return CAUSES[kind]
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


def shared_gpus(facts: Facts) -> Iterator[Finding]:
    """Yield tables of one host with two ranks on the same GPU, which are not instances of it (MIG)."""
    for fact in facts.of(Quantity.COLLECTIVE):
        table: NcclTestsTable = fact.value
        # Older versions print the bus without its domain, which several GPUs of a host have.
        places = Counter(zip(table.bus_ids, table.devices, strict=False))
        shared = [bus for (bus, _), count in places.items() if count > 1 and _WHOLE_ADDRESS.match(bus) is not None]
        if table.hosts == 1 and shared and not any("MIG" in name for name in table.gpus):
            ranks = [str(rank) for rank, one in enumerate(table.bus_ids) if one == shared[0]]
            text = (
                f"ranks {listed(ranks, _MOST_RANKS)} use the same GPU ({shared[0]}): the table shows copies within it "
                "or over TCP, not those between GPUs"
            )
            remedy = "one GPU for each rank: check CUDA_VISIBLE_DEVICES, and that each process sets its device"
            yield Finding("shared_gpu", text, remedy, ACCESS + 1, origin=f"{fact.place.path}:{table.line}")
