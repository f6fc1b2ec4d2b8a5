"""Known warnings and errors of NCCL, with their meaning and remedy."""

from __future__ import annotations

from fabricast.diagnosis.known_problem import KnownProblem, first_match

#: Meanings of problems that other statements explain.
CARD_FAILED = "an operation of the network card failed"
OFI_REFUSED = "the OFI plugin refuses EFA, since libfabric does not reach the memory of GPUs"
OFI_FAILED = "libfabric cannot open its device or an endpoint"
UNFINISHED = "a collective operation did not end in time"
OFI_NO_PROVIDER = "the OFI plugin finds no EFA provider, and NCCL uses TCP"
NO_VERBS = "NCCL finds no InfiniBand or RoCE card and uses TCP"

_TOO_MANY_PEERS = "a process uses more GPUs with direct copies than CUDA permits (8 peers of a GPU)"
_FEWER_PEERS = "one process for each GPU (mpirun or torchrun), or at most 9 GPUs in a process"
_SHM_FULL = "shared memory (/dev/shm) is too small"
_SHM = (
    "raise the size of /dev/shm: docker run --shm-size=1g or --ipc=host; in Kubernetes an emptyDir with medium Memory"
)
_INTERFACE = (
    "NCCL_SOCKET_IFNAME names an interface that 'ip -brief address' lists on every host ('=' before it for an exact "
    "match)"
)
_RANK_ENDED = "read the log of the rank that ended first: its message is the cause"
#: The first expression that a message contains decides.
_KNOWN = (
    KnownProblem(
        r"shm.*(?:No space left|error 28)|posix_fallocate failed.*No space|No space left on device.*shm"
        r"|shared memory segment.*No space|failed to extend /dev/shm",
        _SHM_FULL,
        _SHM,
    ),
    KnownProblem(
        r"Cuda failure.*\(misc/shmutils",
        "CUDA cannot register a segment of shared memory",
        "NCCL_SHM_DISABLE=1 runs without it; check the limits of locked memory (ulimit -l) and the driver",
    ),
    KnownProblem(
        r"attaching to shared memory segment.*No such file",
        "a segment of shared memory of another rank is not there",
        "the other rank ended, or runs in a container with another /dev/shm: share it (--ipc=host), or "
        "NCCL_SHM_DISABLE=1; read the log of the rank that ended first",
    ),
    KnownProblem(
        r"custom_all_reduce\.cuh(?!.*peer access)",
        "the all-reduce of vLLM failed, which replaces that of NCCL",
        "--disable-custom-all-reduce, or --enforce-eager; try the next version of vLLM",
    ),
    KnownProblem(
        r"uncorrectable ECC error",
        "the memory of a GPU has an uncorrectable error (ECC)",
        "'sudo dmesg' names the GPU (Xid 48, 94, 95) and 'nvidia-smi -q -d ECC,ROW_REMAPPER' its counters: reset it, "
        "or replace it",
    ),
    KnownProblem(
        r"uncorrectable NVLink error",
        "an NVLink of a GPU has an uncorrectable error",
        "'sudo dmesg' names the GPU (Xid 74) and 'nvidia-smi nvlink -e' the link; reset the GPUs, or replace it",
    ),
    KnownProblem(
        r"shared memory segment",
        "a segment of shared memory cannot be created",
        f"often it is too small: {_SHM}",
        same_as=_SHM_FULL,
    ),
    KnownProblem(
        r"No interface found in the same subnet",
        "a host has no interface in the network of the address that it should call",
        "MASTER_ADDR or NCCL_COMM_ID with one address of rank 0 that all hosts reach, the same on all of them; in a "
        "container --network=host",
    ),
    KnownProblem(
        r"bind failed.{0,40}Cannot assign requested address",
        "a process should listen at an address that its host does not have",
        "MASTER_ADDR or NCCL_COMM_ID with an address of the host of rank 0; in a container --network=host",
        is_consequence=True,
    ),
    KnownProblem(
        r"no socket interface found|no interface found|No interface (?:found|matching)|Bootstrap : no socket",
        "NCCL finds no network interface",
        _INTERFACE,
    ),
    KnownProblem(
        r"Only EFA provider is supported|No eligible providers|find any optimal provider"
        r"|failed to find a provider|fi_getinfo\(\) call failed",
        OFI_NO_PROVIDER,
        "FI_PROVIDER=efa, the EFA installer, and the EFA devices in the container ('fi_info -p efa')",
        is_failure=False,
    ),
    KnownProblem(
        r"GDR disabled on GDR-supported",
        OFI_REFUSED,
        "a libfabric with CUDA, such as that of the EFA installer: 'fi_info -p efa -c FI_HMEM' must list a provider",
    ),
    KnownProblem(
        r"NET/OFI.{0,20}Couldn't (?:open|create|enable|bind)|Creating new endpoint for domain"
        r"|ofi[_-]nccl initialization failed",
        OFI_FAILED,
        "FI_LOG_LEVEL=warn names the reason: versions of driver, libfabric and plugin; on Slingshot a job without a "
        "network identifier (srun --network=job_vni)",
    ),
    KnownProblem(r"is neither AF_INET", "a rank has no valid address of another one", _INTERFACE),
    KnownProblem(
        r"wrong type \d+ != \d+",
        "the two ends of a connection differ: hosts use different networks or versions of NCCL, or it came from "
        "another job",
        "compare 'Using network', the plugin and the version of NCCL of each host; NCCL_IB_DISABLE=1 on all hosts uses "
        "TCP; one port for each job",
    ),
    KnownProblem(
        r"wrong magic|[Uu]nexpected magic",
        "a connection came from another job, or two hosts have the same name",
        "set a name for each host (hostname) and a port for each job; NCCL_HOSTID distinguishes hosts with equal names",
    ),
    KnownProblem(
        r"ctrl timeout cnt",
        "GPUDirect-TCPX waits for another host",
        "check the receive manager (rxdm) of all hosts, the versions of plugin and library, and the firewall",
        is_failure=False,
    ),
    KnownProblem(
        r"NET/IB : Unable to open device",
        "NCCL cannot open a network card",
        "pass /dev/infiniband to the container, or name the other cards in NCCL_IB_HCA",
        is_failure=False,
    ),
    KnownProblem(
        r"ibv_modify_qp|\blocal GID\b|\bGID index",
        "a connection of the network card cannot be set up",
        "NCCL_IB_GID_INDEX of RoCE v2 ('show_gids'), the same subnet on all hosts, NCCL_IB_HCA for the right cards; "
        "NCCL_CROSS_NIC=0 where each rail is a network without routes to the others",
    ),
    KnownProblem(
        r"Connection refused",
        "no process listens at the address of another rank: it ended, or the address is of an earlier run",
        "read the log of that rank; remove stale init files (file://...), and use another MASTER_PORT",
    ),
    KnownProblem(
        r"has already checked in",
        "two processes have the same rank",
        "check RANK and WORLD_SIZE of each process, and that the launcher is not started twice",
    ),
    KnownProblem(
        r"No route to host|Network is unreachable|Connection timed out|connect.*timed? ?out",
        "a host cannot be reached over the chosen interface",
        f"{_INTERFACE}; check the firewall between the hosts",
    ),
    KnownProblem(
        r"(?:Mixing|Mismatch|different|mismatch).{0,40}NCCL versions?|NCCL version.{0,40}(?:mismatch|differ)"
        r"|Message truncated : received \d+ bytes instead of",
        "the ranks use different versions of NCCL",
        "the same container or environment on every host; NCCL_DEBUG=VERSION prints the version",
    ),
    KnownProblem(
        r"[Mm]ismatch in rank count|rank count mismatch",
        "ranks of several jobs or of another number meet at one port",
        "another MASTER_PORT, and the same WORLD_SIZE on all ranks; end processes of an earlier run",
    ),
    KnownProblem(
        r"Duplicate GPU detected",
        "two ranks use the same GPU",
        "one GPU for each rank: set the device from LOCAL_RANK, check CUDA_VISIBLE_DEVICES and the number of ranks",
    ),
    KnownProblem(
        r"NVLS.{0,80}(?:bind|fail|error|multicast)|(?:bind|create).{0,40}(?:NVLS|NVLink SHARP|[Mm]ulticast)"
        r"|transport/nvls",
        "NVLink SHARP (NVLS) cannot be set up",
        "NCCL_NVLS_ENABLE=0 runs without it; check the fabric manager, after its restart reset the GPUs or reboot; "
        "between hosts check the IMEX service",
    ),
    KnownProblem(
        r"[Ss]ystem not yet initialized|failure 802|cudaErrorSystemNotReady",
        "the fabric manager of the NVSwitches does not run",
        "systemctl restart nvidia-fabricmanager, of the version of the driver",
    ),
    KnownProblem(r"TOO_MANY_PEERS", _TOO_MANY_PEERS, _FEWER_PEERS, is_failure=False),
    KnownProblem(r"failure 711|peer mapping resources", _TOO_MANY_PEERS, _FEWER_PEERS),
    KnownProblem(
        r"CUDART error: peer access is not supported",
        "the all_reduce of vLLM or SGLang itself needs direct copies, which the driver refuses",
        "--disable-custom-all-reduce: it then uses NCCL; GeForce cards have no direct copies with NVIDIA's driver",
    ),
    KnownProblem(
        r"CUDA IPC handle|(?:[cC]uda|[hH]ip)Ipc\w+(?!.*out of memory)|peer access is not supported"
        r"|mapping of buffer object failed|failure 217|cudaErrorMapBufferObjectFailed"
        r"|failure 205",
        "direct copies between GPUs cannot be set up",
        "test with NCCL_P2P_DISABLE=1; check the driver, the IOMMU and the size of BAR1 ('nvidia-smi -q -d MEMORY')",
    ),
    KnownProblem(
        r"[Cc]uda failure.{0,20}out of memory|CUDA error: out of memory|CUDA failure.{0,80}out of memory"
        r"|CUDA out of memory|OutOfMemoryError",
        "the memory of a GPU is full",
        "fewer or smaller buffers, or a smaller batch; NCCL_BUFFSIZE and fewer channels reduce the share of NCCL",
    ),
    KnownProblem(
        r"driver version is insufficient|built with CUDA runtime|driver/library version mismatch|forward compatib",
        "driver, CUDA and NCCL do not match",
        "a driver for this version of CUDA, or a build for this GPU; reboot after an update of the driver",
    ),
    KnownProblem(
        r"invalid device function|no kernel image is available",
        "the program or NCCL has no code for this GPU",
        "a build of PyTorch and NCCL for the compute capability of the GPU (torch.cuda.get_arch_list() lists those of "
        "PyTorch)",
    ),
    KnownProblem(
        r"illegal memory access|unspecified launch failure|device-side assert",
        "a kernel before the operation failed on a GPU",
        "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer finds the kernel; NCCL only reports it",
    ),
    KnownProblem(
        r"invalid device ordinal",
        "a rank uses a GPU that does not exist",
        "check the number of ranks on each host against CUDA_VISIBLE_DEVICES",
    ),
    KnownProblem(
        r"ibv_(?:reg_mr|create_[cq]q|create_qp|alloc_pd).{0,80}(?:Cannot allocate memory|error 12|Bad address)|memlock"
        r"|ibv_create_[cq][qp] failed\s*$",
        "memory cannot be locked for the network card",
        "ulimit -l unlimited (in containers --ulimit memlock=-1); for GPU memory load nvidia-peermem",
    ),
    KnownProblem(
        r"local access violation",
        "the network card refused an access to memory of this host",
        "compare the MTU ('ibv_devinfo', active_mtu) and the version of NCCL of all hosts; with GPUDirect RDMA check "
        "ACS and nvidia-peermem (NCCL_NET_GDR_LEVEL=0 tests without it)",
        is_consequence=True,
    ),
    KnownProblem(
        r"communicator encountered a fatal error",
        "an operation of the network failed",
        "the other messages of this time name the reason, on this host or on its peers",
        is_consequence=True,
    ),
    KnownProblem(
        r"NET/OFI.{0,200}completed with error",
        "an operation of the network failed in libfabric",
        "on EFA, the security group must permit all traffic to itself, in and out; FI_LOG_LEVEL=warn names the reason; "
        "check the versions of libfabric and plugin",
    ),
    KnownProblem(
        r"Failed to find reverse path|Attribute \w+ of node \w+ not found",
        "NCCL cannot use the topology that it reads",
        "unset NCCL_TOPO_FILE or use the file of the provider for these GPUs (before 2.8 for all GPUs of the node); in "
        "a container mount /sys; try the next version of NCCL or RCCL",
    ),
    KnownProblem(
        r"vendor[ _]err[ =]81|status=(?:4\b|IBV_WC_LOC_PROT_ERR).{0,80}vendor|[Cc]ompletion.{0,80}error 4\b",
        "the network card cannot reach the memory of the GPU (error 4): access control (ACS) redirects its copies",
        "switch ACS off on the path between GPU and card; NCCL_NET_GDR_LEVEL=0 works but is slow, and confirms it",
    ),
    KnownProblem(
        r"status=(?:12|IBV_WC_RETRY_EXC)|[Cc]ompletion.{0,80}error 12\b|vendor[ _]err[ =]129|retry exceeded"
        r"|transport retry",
        "the network lost messages (InfiniBand or RoCE retries exceeded)",
        "check cables, switches and the GID index (NCCL_IB_GID_INDEX), for RoCE also PFC and ECN; NCCL_IB_TIMEOUT=22 "
        "only hides it",
    ),
    KnownProblem(
        r"ibv_reg_dmabuf_mr",
        "the driver of the network card lacks DMA-BUF",
        "NCCL_DMABUF_ENABLE=0 uses nvidia-peermem, if it is loaded; or update the driver of the card",
    ),
    KnownProblem(
        r"ibv_reg_mr\w*",
        "memory cannot be registered at the network card",
        "for GPU memory load nvidia-peermem, in the version of the driver of the card; ulimit -l unlimited",
    ),
    KnownProblem(
        r"(?:status=|[Cc]ompletion.{0,80}error )(?:9|10|11)\b|status=IBV_WC_REM_|remote access",
        "the other host refused an operation of the network card",
        "read the log of that host: memory that is not registered, a rank that ended, or other versions of NCCL",
    ),
    KnownProblem(
        r"(?:status=|[Cc]ompletion.{0,80}error )5\b|status=IBV_WC_WR_FLUSH",
        "a network operation was cancelled after an earlier error",
        "the first other error in the logs of all ranks is the cause",
        is_consequence=True,
    ),
    KnownProblem(
        r"(?:status=|[Cc]ompletion.{0,80}error )13\b|status=IBV_WC_RNR_RETRY",
        "the other host does not receive (RNR retries exceeded)",
        "read the log of that host: its rank waits, or ended",
    ),
    KnownProblem(
        r"async event.{0,60}(?:catastrophic|fatal)",
        "a network card has a fatal error",
        "'sudo dmesg' names the error; update the firmware, reset the card or reboot",
    ),
    KnownProblem(
        r"port error|link down|async event.{0,60}down",
        "a port of a network card lost its link",
        "check cable and switch ('ibstat', 'dmesg')",
    ),
    KnownProblem(
        r"(?<!NVLink )SHARP|CollNet",
        "in-network reduction (SHARP) is not available, and NCCL works without it",
        "check the aggregation manager (sharp_am), its number of jobs, and that no used port runs the subnet manager; "
        "NCCL_COLLNET_ENABLE=0 leaves it out",
        is_failure=False,
    ),
    KnownProblem(
        r"NET/IB.{0,80}(?:failed|error)|ibv_\w+ failed|Call to ibv_",
        CARD_FAILED,
        "check 'ibv_devinfo', the permissions of /dev/infiniband and NCCL_IB_HCA",
    ),
    KnownProblem(
        r"Watchdog caught collective operation timeout|Timeout at NCCL work|Some NCCL operations have failed"
        r"|watchdog got stuck",
        UNFINISHED,
        "one rank did not call it or ended: compare the last operation of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE); a "
        "longer timeout only helps where a rank is slow",
        is_consequence=True,
    ),
    KnownProblem(
        r"waitForInput: ",
        "a rank waited for the others at the start (store of PyTorch), and at least one did not come",
        "compare WORLD_SIZE and MASTER_ADDR of all ranks; read the log of a rank that did not start",
        is_consequence=True,
    ),
    KnownProblem(
        r"[Cc]onnect to \S{1,80} failed|connect.{0,80}retrying",
        "a connection to another rank failed",
        f"{_INTERFACE}; check the firewall, and the log of that rank",
    ),
    KnownProblem(
        r"store->get",
        "rank 0 does not answer: it ended or hangs before it shares the identifier of the communicator",
        "read the log of rank 0; check MASTER_ADDR, the firewall, and that all ranks start the same operation",
    ),
    KnownProblem(
        r"Address family not supported",
        "a host has no address of the family (IPv4 or IPv6) that another host uses",
        "NCCL_SOCKET_FAMILY=AF_INET on all hosts, with NCCL_SOCKET_IFNAME of an interface that has an IPv4 address",
    ),
    KnownProblem(
        r"NUMA auto balancing enabled",
        "automatic NUMA balancing is on, which slows RCCL down",
        "sudo sysctl kernel.numa_balancing=0",
        is_failure=False,
    ),
    KnownProblem(
        r"Missing \"?iommu=pt", "the kernel does not run with iommu=pt", "boot with iommu=pt", is_failure=False
    ),
    KnownProblem(
        r"Missing \"?\w{2,60}=\S{1,40}\"? from kernel command line",
        "a parameter of the kernel that the library asks for is missing",
        "boot with the parameter that the message names",
        is_failure=False,
    ),
    KnownProblem(
        r"Missing \"?HSA_FORCE_FINE_GRAIN_PCIE",
        "a variable that RCCL asks for is missing, which matters only for direct copies over PCIe",
        "export HSA_FORCE_FINE_GRAIN_PCIE=1, if the GPUs have no direct links (XGMI)",
        is_failure=False,
        is_consequence=True,
    ),
    KnownProblem(
        r"Missing \"?[A-Z]\w{2,60}=\S{1,40}\"? from environment",
        "an environment variable that the library asks for is missing",
        "export the variable that the message names",
        is_failure=False,
    ),
    KnownProblem(
        r"Failed to open libibverbs|No device found",
        NO_VERBS,
        "install rdma-core (libibverbs) and pass /dev/infiniband to the container",
        is_failure=False,
    ),
    KnownProblem(
        r"Could not find real path of|/sys/class/pci",
        "NCCL cannot read the PCI topology",
        "mount /sys in the container; in a virtual machine set NCCL_TOPO_FILE to the file of the provider",
    ),
    KnownProblem(
        r"devices?(?:\(s\))? (?:is/are |is |are )?busy or unavailable|NV_ERR_RESET_REQUIRED",
        "a GPU is busy, or cannot be used before a reset",
        "'nvidia-smi' shows processes and the compute mode; 'nvidia-smi -r' resets the GPUs, or reboot",
    ),
    KnownProblem(
        r"HW Exception by GPU",
        "a GPU stopped answering (GPU hang of ROCm)",
        "'sudo dmesg | grep amdgpu' names the error; reset or reboot, and update driver and firmware",
    ),
    KnownProblem(
        r"Memory access fault by GPU",
        "a kernel before the operation failed on a GPU",
        "AMD_SERIALIZE_KERNEL=3 finds the kernel; a library that does not match the GPU or driver does so, too",
    ),
    KnownProblem(r"Too many open files", "a process has too many open files", "ulimit -n 65536"),
    KnownProblem(
        r"IMEX|MNNVL|ImportFromShareableHandle",
        "memory cannot be shared between the hosts of an NVLink domain",
        "check the IMEX service and its channels on all hosts; NCCL_MNNVL_ENABLE=0 runs without it",
    ),
    KnownProblem(
        r"possibly due to a network error or a remote process exiting",
        "the connection to another rank was lost: that rank ended, or the network failed",
        "read the logs of the other ranks: a message of one of them is the cause; without any, check cables, ports and "
        "counters ('ibstat', 'perfquery', 'ethtool -S') and the kernel log of the hosts",
        is_consequence=True,
    ),
    KnownProblem(
        r"GPUDirectTCPX",
        "the network plugin GPUDirect-TCPX failed",
        "plugin, receive manager (rxdm) and NCCL need versions that fit, also that of the framework in the container",
    ),
    KnownProblem(
        r"Broken pipe|Connection reset by peer|Connection closed by (?:remote )?peer|ncclRemoteError|socketProgress",
        "another rank ended first",
        _RANK_ENDED,
        is_consequence=True,
    ),
    KnownProblem(
        r"[Cc]uda failure|unhandled cuda error|ncclUnhandledCudaError|CUDA failure|Test CUDA failure",
        "a CUDA call failed",
        "the first message in the log names the call; check 'nvidia-smi', the driver and Xid messages ('dmesg')",
        is_consequence=True,
        is_general=True,
    ),
    KnownProblem(
        r"unhandled system error|ncclSystemError|Test NCCL failure.*system error",
        "a call of the operating system failed",
        "run with NCCL_DEBUG=INFO: the warning before this line names the call",
        is_consequence=True,
        is_general=True,
    ),
    KnownProblem(
        r"ncclInvalidUsage|invalid usage|ncclInvalidArgument|invalid argument",
        "the program uses NCCL wrongly",
        "run with NCCL_DEBUG=WARN: the warning before this line names the argument; often two ranks on one GPU",
        is_consequence=True,
        is_general=True,
    ),
    KnownProblem(
        r"ncclInternalError|internal error",
        "NCCL reports an internal error",
        "run with NCCL_DEBUG=INFO: the warning before this line names the reason",
        is_consequence=True,
        is_general=True,
    ),
    KnownProblem(
        r"NCCL failure",
        "the test of NCCL failed",
        "run with NCCL_DEBUG=INFO: the warning before this line names the reason",
        is_consequence=True,
        is_general=True,
    ),
)


def known_problem(message: str) -> KnownProblem | None:
    """Return the meaning of a message; None if it is unknown.

    >>> known_problem("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000").meaning
    'two ranks use the same GPU'
    """
    return first_match(_KNOWN, message)
