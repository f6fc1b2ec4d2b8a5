"""Known errors of Open MPI, UCX, libfabric and perftest, with their meaning and remedy."""

from __future__ import annotations

from collections.abc import Iterator

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import shortened
from fabricast.diagnosis.known_problem import KnownProblem, first_match
from fabricast.diagnosis.weights import ACCESS, FIRST, MINOR

_INTERFACE = (
    "name the interface between the hosts: --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 (Open MPI), "
    "UCX_NET_DEVICES=mlx5_0:1 or eth0 (UCX)"
)
_FIRST_ERROR = "the first other error in the output of all processes is the cause; UCX_LOG_LEVEL=info prints more"
_MOST_QUOTED = 300
_NO_SHARP = "in-network reduction (SHARP) is not available"
#: Slurm ends a step without a reason after one of its tasks failed.
_CANCELLED = KnownProblem(
    r"CANCELLED AT", "Slurm ended the job", "read the message of the task that ended first", is_consequence=True
)
#: The first expression that a message contains decides.
_KNOWN = (
    KnownProblem(
        r"would require binding",
        "more cores are asked for than the allocation has",
        "fewer processes on a host, or more cores (Slurm: --ntasks-per-node, --cpus-per-task); --bind-to none starts "
        "them without fixed cores",
    ),
    KnownProblem(
        r"failed status\(.{0,120}unreachable",
        "UCX has no transport by which the processes reach each other",
        "'ucx_info -d' on both hosts; check UCX_TLS and UCX_NET_DEVICES, 'ibstat' and ulimit -l",
    ),
    KnownProblem(
        r"bstrap_proxy",
        "the launcher cannot start its process on a host",
        "test ssh or srun to this host; I_MPI_HYDRA_BOOTSTRAP=slurm or ssh; check firewalls, and that the host has the "
        "same Intel MPI",
    ),
    KnownProblem(
        r"MPI_ERR_TRUNCATE",
        "a message is longer than the buffer of its receiver: an error of the program",
        "check sizes and tags of sends and receives, and that all ranks call collectives in one order",
    ),
    KnownProblem(
        r"call to cu\w+ failed",
        "a process cannot open the memory of the GPU of another process",
        "all processes of a host must see both GPUs (CUDA_VISIBLE_DEVICES, containers with --ipc=host and --pid=host); "
        "without such copies: UCX_TLS=^cuda_ipc, or --mca btl_smcuda_use_cuda_ipc 0",
    ),
    KnownProblem(
        r"couldn't load driver",
        "the library of a kind of network card (libibverbs) is not installed, so that programs do not see such cards",
        "install rdma-core or the vendor's libraries, in containers as well; cards of other kinds do not need it",
        is_failure=False,
    ),
    KnownProblem(
        r"unexpected process identifier|accepted a TCP connection",
        "another process answers at the address of a host, as where several hosts have one address",
        _INTERFACE,
    ),
    KnownProblem(
        r"selected pml",
        "the processes chose different transports, since network cards cannot be used on one of the hosts",
        "compare 'ibstat', ulimit -l and 'ompi_info | grep ucx' of both hosts; --mca pml ucx prints why it fails",
    ),
    KnownProblem(
        r"fabric is unknown|Unable to find '\w+' provider",
        "Intel MPI lacks the fabric or provider that is asked for",
        "I_MPI_FABRICS=shm:ofi, and FI_PROVIDER=mlx (InfiniBand, needs UCX), verbs, psm3 or tcp; 'fi_info' lists them",
    ),
    KnownProblem(
        r"This test requires",
        "the test needs two processes: it was started with another number, or each process is a job of one rank",
        "start two processes (-np 2), with mpirun of the MPI of the program, or srun --mpi=pmix or pmi2 ('srun "
        "--mpi=list')",
    ),
    KnownProblem(
        r"OFI (?:endpoint open|EP enable|domain open|fabric open|CQ open)",
        "the network card cannot be opened when the program starts",
        "'fi_info' lists what works, FI_LOG_LEVEL=warn the reason; on Slingshot check the VNI of the job, and what "
        "other jobs on the host use ('cxi_service list -v'); ulimit -l",
    ),
    KnownProblem(
        r"OFI poll failed.{0,160}UNDELIVERABLE",
        "messages do not arrive at another process, whose host or link may be down",
        "read the errors of that rank and its host; check links and counters of its card",
    ),
    KnownProblem(
        r"MPI_ABORT was invoked|has exited due to",
        "a process of the program ended the job",
        "read the message of the program above it",
        is_consequence=True,
    ),
    KnownProblem(
        r"MPI_ERR_",
        "a call of MPI reports an error",
        "read the other errors: an error of the program, unless one names a network card or a host",
        is_consequence=True,
    ),
    KnownProblem(
        r"\b(?:172\.17\.0\.1|192\.168\.122\.1|169\.254\.\d+\.\d+)\b.{0,60}"
        r"(?:refused|failed|timed? ?out|unreachable|route)",
        "a host is called at an address that exists on every host (a bridge of containers or of virtual machines, or a "
        "link-local address)",
        _INTERFACE,
    ),
    KnownProblem(
        r"GID: 00:00",
        "a RoCE port has no address (its GID is zero)",
        "in a container or pod, pass the network interface of the card as well as its device ('show_gids')",
    ),
    KnownProblem(
        r"dgid fe80",
        "messages over RoCE use link-local addresses, which routers do not forward",
        "UCX_IB_GID_INDEX of a RoCE v2 address with IPv4 ('show_gids')",
        is_failure=False,
    ),
    KnownProblem(
        r"Failed to modify QP|ibv_modify_qp|ibv_create_ah",
        "a connection of the network card cannot be set up",
        "the GID index of RoCE v2 ('show_gids'): -x INDEX in perftest, UCX_IB_GID_INDEX, NVSHMEM_IB_GID_INDEX or "
        "UCCL_IB_GID_INDEX; the same subnet and MTU on both hosts",
    ),
    KnownProblem(
        r"Failed status 4\b|local protection",
        "the network card cannot reach the memory of the process or of the GPU",
        "for GPU memory load nvidia-peermem or use --use_cuda_dmabuf, switch access control (ACS) off, and place the "
        "window of the GPU below the limit of the card (MMIO base in the BIOS)",
    ),
    KnownProblem(
        r"Failed status 12\b|transport retry|[Rr]etry count(?:er)? exceeded|Endpoint timeout"
        r"|\bsynd(?:rome?)? 0x(?:15|81)\b",
        "the network lost messages (InfiniBand or RoCE retries exceeded)",
        "check cables, switches and the GID index, for RoCE also PFC, ECN and the MTU; or the other process "
        "ended first",
    ),
    KnownProblem(
        r"(?:ibv_reg_mr|allocate MR|create mr\b|register MR).{0,80}(?:Bad address|\b(?:errno|error)[ =:(]{1,3}14\b)",
        "the network card cannot reach the memory of a GPU",
        "load nvidia-peermem, or use DMA-BUF (perftest: --use_cuda_dmabuf), which needs the open kernel modules",
    ),
    KnownProblem(
        r"(?:ibv_reg_mr|allocate MR|register MR|create mr\b).{0,120}",
        "memory cannot be registered at the network card",
        "ulimit -l unlimited (in containers --ulimit memlock=-1); with --use_cuda load nvidia-peermem, or add "
        "--use_cuda_dmabuf",
    ),
    KnownProblem(
        r"(?:ibv_create_cq|create_cq|create_qp|\bQP\b).{0,160}Cannot allocate memory"
        r"|Cannot allocate memory.{0,40}memlock",
        "the network card gets no memory for its queues",
        "ulimit -l unlimited (in containers --ulimit memlock=-1); otherwise fewer processes on a node, or another "
        "firmware of the card",
    ),
    KnownProblem(
        r"ibv_exp_query_device\(.{1,60}returned",
        "UCX cannot query the network cards, usually since it was built for another libibverbs than that of the host",
        "use UCX that was built with the installed rdma-core, or install the libraries of MLNX_OFED on all hosts",
        is_failure=False,
        is_costly=True,
    ),
    KnownProblem(
        r"ibv_\w+\(|mlx5dv_(?!devx_uar|devx_obj_modify)\w+|mlx5_\d+.{0,40}failed|failed to create \w{1,4} QP",
        "an operation of the network card failed",
        "check 'ibv_devinfo', the permissions of /dev/infiniband, and driver and firmware of the card",
    ),
    KnownProblem(
        r"shared memory (?:allocation|limits)|/dev/shm",
        "shared memory (/dev/shm) is too small",
        "raise its size: docker run --shm-size=1g or --ipc=host; 'df -h /dev/shm' prints it",
    ),
    KnownProblem(
        r"cuIpc|ipc mem handle",
        "processes cannot open the GPU memory of each other (CUDA IPC)",
        "UCX_TLS=^cuda_ipc runs without it; containers need --ipc=host and all GPUs of the job in each process (Slurm: "
        "--gpu-bind=none)",
    ),
    KnownProblem(
        r"Invalid value for UCX_",
        "a variable of UCX has a value that does not exist",
        "'ucx_info -cf' prints the variables and their values",
    ),
    KnownProblem(
        r"allocate some locked memory|BTL failed to initialize while trying to",
        "the network card gets no locked memory",
        "ulimit -l unlimited: /etc/security/limits.conf (memlock), for Slurm also its daemon (LimitMEMLOCK=infinity)",
        is_failure=False,
    ),
    KnownProblem(
        r"oom[_-]kill|Out Of Memory",
        "a process was killed because its host or job has too little memory",
        "'dmesg' of the host (oom-kill), 'sacct -j JOB --format=MaxRSS'; more memory for the job, or fewer processes",
    ),
    KnownProblem(
        # Launchers end all processes in this way after the first that fails.
        r"exited on signal 9\b|KILLED BY SIGNAL: 9\b|: Killed|\(signal 9\)|EXIT CODE: (?:9|137)\b",
        "a process was killed (signal 9), by the launcher after another one failed, or since memory is short",
        "read the first error of all processes; without one, 'dmesg' of the host (oom-kill) and 'sacct -j JOB "
        "--format=MaxRSS'",
        is_consequence=True,
    ),
    KnownProblem(
        r"[Ss]ignal 7\b|Bus error|exitcode: -7\b|return code = -7\b",
        "a process was ended by a bus error: often /dev/shm is full or too small",
        "docker run --shm-size=1g or --ipc=host; 'df -h /dev/shm' while it runs; delete segments of earlier runs",
    ),
    KnownProblem(
        r"(?:exitcode: |return code = )-9\b",
        "a process of the training was killed (signal 9), often because the host has too little memory",
        "'dmesg' of the host (oom-kill); more memory for the job or container, fewer workers; read the first error of "
        "the other ranks",
        is_consequence=True,
    ),
    KnownProblem(
        r"(?:exitcode: |return code = )-11\b",
        "a process crashed (segmentation fault)",
        "the lines above this message name the library; faulthandler (python -X faulthandler) prints where",
    ),
    KnownProblem(
        r"(?:exitcode: |return code = )-?\d",
        "a process of the training ended with an error",
        "read the first error of all ranks; TORCHELASTIC_ERROR_FILE keeps it",
        is_consequence=True,
    ),
    KnownProblem(
        r"locally known IP",
        "a process calls from another address than it states, as through NAT or a second interface",
        "--mca btl_tcp_if_include and oob_tcp_if_include with the network that all hosts share; no address "
        "translation between them",
    ),
    KnownProblem(
        r"No PMIx server was reachable|singletons will be started",
        "srun starts processes that do not know each other",
        "'srun --mpi=pmix' with an Open MPI that was built with the PMIx of Slurm, or mpirun within the allocation",
    ),
    KnownProblem(
        r"pmixp_",
        "the PMIx plugin of Slurm failed",
        "Slurm and MPI need the same version of PMIx ('srun --mpi=list'); read the log of slurmd on the named host",
    ),
    KnownProblem(
        r"(?:exited on|Caught) signal (?:1|2|15)\b|KILLED BY SIGNAL: (?:1|2|15)\b|\(signal (?:1|2|15)\)"
        r"|Signal: (?:Terminated|Hangup|Interrupt)|EXIT CODE: (?:1|2|15|129|130|143)\b|: Terminated",
        "a process was ended from outside or with an error code",
        "read the first error of all processes; without one, who ended the job: a user, a time limit or the scheduler",
        is_consequence=True,
    ),
    KnownProblem(
        r"exited on signal 11\b|KILLED BY SIGNAL: 11\b|Caught signal 11\b|EXIT CODE: 139\b|Segmentation fault",
        "a process crashed (segmentation fault)",
        "the backtrace above names the library; for GPU buffers MPI needs CUDA support; check that all hosts load the "
        "same versions",
    ),
    KnownProblem(
        r"exited on signal|KILLED BY SIGNAL|Caught signal|\(signal \d|^Signal: |: Aborted",
        "a process was ended by a signal",
        _FIRST_ERROR,
    ),
    KnownProblem(
        r"Assertion failed in file",
        "an assertion of the MPI library failed",
        "search for file and line of the assertion in the issues of the library, and try its next version",
    ),
    KnownProblem(
        r"CANCELLED AT .{0,60}DUE TO TIME LIMIT",
        "Slurm ended the job at its time limit",
        "it was slow or hangs: the last line of each process shows where",
    ),
    KnownProblem(
        r"CANCELLED AT .{0,60}DUE TO",
        "Slurm ended the job",
        "the message states why: 'sacct -j JOB' and 'scontrol show job JOB' print more",
    ),
    _CANCELLED,
    KnownProblem(
        r"specified plugin name for mpi/pmix|can not load PMIx library",
        "this Slurm has no PMIx plugin that works",
        "'srun --mpi=list' prints those that it has; start with mpirun within the allocation, or install the PMIx that "
        "Slurm was built with",
    ),
    KnownProblem(
        r"PMI support",
        "srun cannot start this Open MPI, which was built without Slurm's PMI",
        "mpirun within the allocation, or srun with the type that it was built for: --mpi=pmix, or --mpi=pmi2 where "
        "its messages name PMI2 ('srun --mpi=list')",
    ),
    KnownProblem(
        r"hfi_userinit",
        "processes get no context of the Omni-Path card",
        "fewer processes on a host, or PSM2_RANKS_PER_CONTEXT=2; 'opainfo' shows the card",
    ),
    KnownProblem(r"Exited with exit code|EXIT CODE: ", "a task ended with an error", _FIRST_ERROR, is_consequence=True),
    KnownProblem(
        r"Port number \d+ state is Down",
        "a port of the network card is down",
        "check cable, switch and subnet manager ('ibstat'); -i names another port",
    ),
    KnownProblem(
        r"socket connection",
        "no server answers",
        "start the server first, with the same test and port (-p); check the firewall between the hosts",
    ),
    KnownProblem(
        r"process_vm_readv.*Bad address",
        "an address is no host memory that another process can read",
        "for GPU buffers, MPI and UCX must support CUDA or ROCm ('ompi_info | grep -i cuda', 'ucx_info -d'); test with "
        "UCX_TLS=^cma and UCX_MEMTYPE_CACHE=n",
    ),
    KnownProblem(
        r"process_vm_readv|errno ?= ?1\b|ptrace attach of",
        "a process may not read the memory of another one on its host",
        "docker run --cap-add=SYS_PTRACE, or kernel.yama.ptrace_scope=0; without it UCX_TLS=^cma, or --mca "
        "btl_vader_single_copy_mechanism none (btl_sm since version 5, smsc ^cma)",
    ),
    KnownProblem(
        r"fi_getinfo: ",
        "libfabric finds no card of the provider that is asked for",
        "pass /dev/infiniband to the container and install the libfabric of the cards (AWS: the EFA installer); "
        "'fi_info -p efa' lists them",
    ),
    KnownProblem(
        r"fi_getinfo|addrinfo|fi_fabric|PSM2 (?!device)",
        "the fabric library finds no network that it can use",
        "'fi_info' lists the providers: FI_PROVIDER=tcp, shm, verbs or efa names one that is there; check the driver "
        "of the card",
    ),
    KnownProblem(
        r"OFI .{0,120}- CANCELED",
        "an operation of the network was cancelled, as when the job is ended from outside",
        "read the log of the scheduler and the first error of all processes",
        is_consequence=True,
    ),
    KnownProblem(
        r"OFI .{0,60}failed",
        "an operation of the fabric library failed while the program ran",
        "FI_LOG_LEVEL=warn names the reason; on Slingshot, FI_CXI_RX_MATCH_MODE=hybrid or software if a list of "
        "receives is full",
    ),
    KnownProblem(
        r"port is used by SM|Failed to lock \w+ tree|SHARP|collect_ports_data",
        _NO_SHARP,
        "SHARP cannot use a port that runs the subnet manager: move the manager, or name other ports; check sharp_am "
        "and the number of jobs that it permits",
        is_failure=False,
    ),
    KnownProblem(
        r"Unable to initialize any transports",
        "NVSHMEM can use no transport",
        "the lines before this message name the reason of each: IBGDA needs ConnectX cards, ibrc an active port "
        "('ibv_devinfo')",
    ),
    KnownProblem(
        r"Name or service not known",
        "the name of a host cannot be resolved",
        "MASTER_ADDR with a name or address that every host resolves ('getent hosts NAME')",
    ),
    KnownProblem(
        r"client socket has|timed out after .{0,40}connect",
        "a rank cannot reach the first one (MASTER_ADDR)",
        "check MASTER_ADDR and MASTER_PORT, that rank 0 runs, and the firewall; GLOO_SOCKET_IFNAME names the interface",
    ),
    KnownProblem(
        r"is not available",
        "UCX lacks a transport or device that a variable names",
        "'ucx_info -d' lists those of a host; gdr_copy needs the module gdrdrv; check UCX_TLS and UCX_NET_DEVICES",
        is_failure=False,
    ),
    KnownProblem(
        r"IBGDA",
        "NVSHMEM cannot send from GPUs by itself (IBGDA)",
        "IBGDA needs ConnectX cards and the driver option PeerMappingOverride=1; NVSHMEM_IB_ENABLE_IBGDA=0 avoids it",
        is_failure=False,
    ),
    KnownProblem(
        r"127\.0\.1\.1|resolve hostname",
        "a host calls itself at its loopback address, where others cannot reach it",
        "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name the interface between the hosts; check /etc/hosts",
    ),
    KnownProblem(
        r"PML ucx cannot be selected",
        "UCX finds no network card that Open MPI asks it for",
        "unset OMPI_MCA_pml and --mca pml ucx on hosts without cards, or --mca pml ob1 --mca btl self,sm,tcp; "
        "OMPI_MCA_pml_ucx_tls=any and pml_ucx_devices=any permit UCX over TCP",
    ),
    KnownProblem(
        r"PML \w+ cannot be selected",
        "the transport that Open MPI is asked for is not available on this host",
        "leave '--mca pml' and OMPI_MCA_pml out; 'ompi_info | grep pml' lists those that are built in",
    ),
    KnownProblem(
        r"GTL library is not linked",
        "Cray MPICH should send from the memory of GPUs, and the program is not linked for it",
        "build with the wrappers cc and CC and the module craype-accel-*, or MPICH_GPU_SUPPORT_ENABLED=0",
    ),
    KnownProblem(
        r"set_affinity|Core id \d+ does not exist",
        "MVAPICH cannot bind processes to cores of this host",
        "MV2_ENABLE_AFFINITY=0, and bind with the launcher (srun --cpu-bind, mpirun)",
    ),
    KnownProblem(
        r"multiple cpus-per-proc",
        "several cores for each process do not fit the object by which processes are placed",
        "--map-by slot:PE=N, socket:PE=N or node:PE=N instead of core:PE=N",
    ),
    KnownProblem(
        r"no PSM2 device is active",
        "PSM2 finds no Omni-Path card",
        "'opainfo' and 'ls /dev/hfi1*' name the device: PSM2 looks for hfi1_0, which rules of udev may rename; other "
        "networks need another provider ('fi_info')",
    ),
    KnownProblem(
        r"master SM",
        "the aggregation manager of SHARP (sharp_am) runs on another host than the subnet manager",
        "start sharp_am on the host and port of the master subnet manager ('sminfo' names its LID)",
    ),
    KnownProblem(
        r"Too many open files",
        "a process has too many open files and connections",
        "ulimit -n 65536 on all hosts, for Slurm also in its daemon (LimitNOFILE); --mca btl_tcp_links 1",
    ),
    KnownProblem(
        r"devx_obj_modify|init2rtr|setup connections failed|connect EPS failed",
        "NVSHMEM cannot connect its queues between network cards",
        "NVSHMEM_IB_GID_INDEX of RoCE v2 ('show_gids'); on InfiniBand leave NVSHMEM_IB_TRAFFIC_CLASS out; "
        "NVSHMEM_HCA_LIST names cards of one network that reach each other",
    ),
    KnownProblem(
        r"modprobe: FATAL",
        "a module is not installed for the kernel that runs",
        "install the driver (or its dkms package and the headers) for this kernel ('uname -r'), then load the module",
        is_failure=False,
    ),
    KnownProblem(
        r"open\(file_name=/proc",
        "a process cannot open the shared memory of another one through /proc",
        "UCX_POSIX_USE_PROC_LINK=n, or UCX_TLS=^posix; in containers one for all processes of a host",
    ),
    KnownProblem(
        r"failure to append LE",
        "a list of receives of the Slingshot card is full",
        "FI_CXI_RX_MATCH_MODE=hybrid, or software if it goes on",
        is_failure=False,
    ),
    KnownProblem(
        r"got completion with error",
        "an operation of the network card failed",
        "the syndrome in the lines below names the reason; check port, GID and the peer ('ibstat', 'show_gids')",
    ),
    KnownProblem(
        r"DeepEP|check timeout failed",
        "an operation of DeepEP did not end in time: data or signals of another rank do not arrive",
        "compare the tests of NVSHMEM (shmem_put_bw) between the same hosts; check that all ranks run, the cards that "
        "NVSHMEM uses (NVSHMEM_HCA_LIST), and IBGDA",
    ),
    KnownProblem(
        r"unexpectedly failed after launch",
        "a daemon of mpirun on another host ended or does not connect back",
        "check that hosts reach each other on all ports (firewall), names and interfaces (--mca oob_tcp_if_include), "
        "and that Open MPI is at the same place",
    ),
    KnownProblem(
        r"nvidia_peermem detected",
        "NVSHMEM finds no module by which network cards reach the memory of GPUs, and does not use them",
        "modprobe nvidia-peermem on the host",
        is_failure=False,
    ),
    KnownProblem(
        r"mlx5dv_devx_uar",
        "a process may not use the network card by itself (DEVX), which IBGDA of NVSHMEM needs",
        "in a container --privileged, or the capabilities and devices of RDMA (IPC_LOCK, /dev/infiniband); "
        "NVSHMEM_IB_ENABLE_IBGDA=0 runs without it",
    ),
    KnownProblem(
        r"post internal receive buffers|Libfabric error: \(-12\)",
        "EFA gets no locked memory for its buffers",
        "ulimit -l unlimited: /etc/security/limits.conf (memlock), in containers --ulimit memlock=-1, in Slurm "
        "PropagateResourceLimitsExcept=MEMLOCK",
    ),
    KnownProblem(
        r"Command not found: nvidia-container-cli",
        "the host lacks the tools by which containers get GPUs",
        "install nvidia-container-toolkit (libnvidia-container-tools) on all nodes with GPUs",
    ),
    KnownProblem(
        r"nvidia-container-cli: .{0,300}permission denied",
        "the container cannot be started: its files may not be read",
        "check owner and permissions of the data folder of enroot or of the container, also for the node's user",
    ),
    KnownProblem(
        r"nvidia-container-cli",
        "the container cannot be started with GPUs",
        "the message names the reason: driver, libraries, or the devices of the host ('nvidia-container-cli -k -d "
        "/dev/stderr info')",
    ),
    KnownProblem(
        r"does not support the kernel ABI",
        "the libraries of network cards (rdma-core) do not fit the driver of the host, so that programs see no card",
        "install the rdma-core or vendor library of the version of the host's driver, in containers as well",
    ),
    KnownProblem(
        r"No IB devices found|find the Infiniband/RoCE device|sys files not found",
        "no InfiniBand or RoCE card is registered on this host or in this container",
        "check 'lspci', the driver ('lsmod | grep mlx5_ib', 'dmesg') and its firmware; in a container pass "
        "/dev/infiniband",
    ),
    KnownProblem(
        r"No SM/SA ",
        "a port reaches no subnet manager",
        "check that a subnet manager runs (opensm, or that of a switch), and the state of the port ('ibstat')",
    ),
    KnownProblem(
        r"GDR driver|gdrdrv driver",
        "GDRCopy cannot use its module (gdrdrv)",
        "load it ('sudo modprobe gdrdrv', after an update of the driver again), with the version of the library, and "
        "check the permissions of /dev/gdrdrv",
        is_failure=False,
    ),
    KnownProblem(
        r"PSM2? could not set up shared memory",
        "PSM2 gets no shared memory on a host",
        "check the size of /dev/shm ('df -h /dev/shm'), and delete segments of earlier runs (/dev/shm/psm2_shm*)",
    ),
    KnownProblem(
        r"IMEX daemon status",
        "the IMEX service does not run, without which hosts of an NVLink domain share no memory",
        "'systemctl status nvidia-imex' and 'nvidia-imex-ctl -N'; in Kubernetes it starts with a ComputeDomain",
        is_failure=False,
    ),
    KnownProblem(
        r"gres/gpu count",
        "Slurm finds fewer GPUs on a node than its configuration states",
        "check 'nvidia-smi' on this node, gres.conf (AutoDetect=nvml) and the driver; then restart slurmd and resume "
        "the node",
    ),
    KnownProblem(
        r"in the PCI tree",
        "GPUDirect-TCPX sees another number of GPUs or cards than CUDA",
        "pass all cards of the node to the pod (hostNetwork, device plugins), and add no other card in their slots",
    ),
    KnownProblem(
        r"not enough slots available",
        "mpirun is asked for more processes than the hosts have slots",
        "slots=N in the host file, --map-by with the right number, or --oversubscribe",
    ),
    KnownProblem(
        r"orted: command not found|prted: command not found",
        "Open MPI is not in the search path of the other hosts",
        "mpirun --prefix DIR, or PATH and LD_LIBRARY_PATH for shells without login",
    ),
    KnownProblem(
        r"^ssh: connect to host",
        "a host cannot be reached over ssh",
        "check name, port and key of the host (ssh HOST hostname)",
    ),
    KnownProblem(
        r"connect\([^)]*\).{0,80} failed|failed to TCP connect|complete a TCP connection|No route to host",
        "a host cannot be reached over the chosen interface",
        f"{_INTERFACE}; check the firewall between the hosts",
    ),
    KnownProblem(
        r"non-excluded one OpenFabrics device",
        "Open MPI finds no active port of the network cards",
        "'ibstat' states the ports: check cable and subnet manager; --mca pml ucx uses the cards by UCX, and "
        "--mca btl ^openib ends the warning where TCP is meant",
        is_failure=False,
    ),
    KnownProblem(
        r"unable to reach each other|no \w+ messages transport|no .{0,40}transport to ",
        "two processes have no transport in common",
        "leave out --mca btl and UCX_TLS, or add self, sm and tcp (Open MPI), or sm,self,rc or tcp (UCX); "
        "'ucx_info -d' lists the devices of a host",
    ),
    KnownProblem(
        r"lost communication with a remote daemon",
        "a host of the job is lost, or its daemon cannot be reached",
        "look at this host: is it up, did its kernel end the process ('dmesg', out of memory), does its network work; "
        "if only jobs of many hosts fail, --mca routed direct (Open MPI before version 5)",
    ),
    KnownProblem(
        r"unable to reliably start",
        "mpirun cannot start its daemon on a host",
        "the lines before this message name the reason: ssh, search path, or a firewall",
        is_consequence=True,
    ),
    KnownProblem(
        r"rdma_create_event_channel|open CM on component rdmacm",
        "UCX finds no RDMA device on this host",
        "on hosts without such cards, leave UCX out (--mca pml ^ucx) or its connections by RDMA (UCX_TLS=^rdmacm)",
        is_failure=False,
    ),
    KnownProblem(
        r"ucp_ep_create|resolve UCX endpoint|create UCP worker|Connect the HCA's|Destination is unreachable"
        r"|read remote address",
        "the processes cannot be connected",
        _FIRST_ERROR,
        is_consequence=True,
    ),
)


def mpi_problems(facts: Facts) -> Iterator[Finding]:
    """Yield the errors of MPI, each meaning once; errors after which a run has results are notes."""
    aborted, results = _aborted(facts), _last_results(facts)
    found: dict[str, tuple[KnownProblem | None, Fact]] = {}
    nccl_names_sharp = any("SHARP" in message for message in facts.values(Quantity.NCCL_PROBLEM))
    for fact in facts.of(Quantity.MPI_PROBLEM):
        if not _is_survived(fact, aborted, results):
            problem = first_match(_KNOWN, fact.value)
            if nccl_names_sharp and problem is not None and problem.meaning == _NO_SHARP:
                # The library of SHARP prints its lines for NCCL.
                continue
            found.setdefault("" if problem is None else problem.meaning, (problem, fact))
    # Slurm ends the other tasks after the first that fails: that one is the cause.
    ordered = sorted(found.values(), key=lambda one: one[0] is _CANCELLED)
    explanations = [one for one, _ in ordered if one is not None and not one.is_consequence]
    # What follows from a warning is no failure.
    are_warnings = bool(explanations) and not any(one.is_failure for one in explanations)
    for number, (problem, fact) in enumerate(ordered, start=1):
        is_failure = fact.place.path in aborted and (problem is None or problem.is_failure)
        is_later = bool(explanations) and (problem is None or problem.is_consequence)
        is_failure = is_failure and not (are_warnings and is_later and problem is not None)
        weight = FIRST - number / 100 - 0.5 * is_later if is_failure else MINOR if problem is None else ACCESS
        meaning = "an error whose meaning is not known here" if problem is None else problem.meaning
        host = f" ({fact.subject[0]})" if fact.subject else ""
        remedy = "search for the message with the version of the library" if problem is None else problem.remedy
        cause = f"mpi_{'error' if is_failure else 'warning'}"
        text = f'{meaning}{host}: "{shortened(fact.value, _MOST_QUOTED)}"'
        yield Finding(cause, text, remedy, weight - 0.01 * is_later, origin=str(fact.place))


def mpi_notes(facts: Facts) -> Iterator[str]:
    """Yield the errors after which a run has results: Open MPI and UCX try the next interface or device."""
    aborted, results = _aborted(facts), _last_results(facts)
    for fact in facts.of(Quantity.MPI_PROBLEM):
        if _is_survived(fact, aborted, results):
            yield f'the run has results after the error "{shortened(fact.value, _MOST_QUOTED)}" ({fact.place})'


def _aborted(facts: Facts) -> set[str]:
    """Return the files that state the end of a run."""
    return {fact.place.path for fact in facts.of(Quantity.MPI_ABORTED)}


def _is_survived(fact: Fact, aborted: set[str], results: dict[str, int]) -> bool:
    """Return whether a run that was not aborted has results below an error, which does not slow it down."""
    problem = first_match(_KNOWN, fact.value)
    if problem is not None and problem.is_costly:
        return False
    return fact.place.path not in aborted and results.get(fact.place.path, 0) > fact.place.line


def _last_results(facts: Facts) -> dict[str, int]:
    """Return the last line with a result in each file."""
    last: dict[str, int] = {}
    for table in facts.of(Quantity.COLLECTIVE):
        last[table.place.path] = max([last.get(table.place.path, 0), *(row.line for row in table.value.rows)])
    for fact in facts.of(Quantity.MESSAGE_TIME, Quantity.OPERATION_TIME):
        last[fact.place.path] = max(last.get(fact.place.path, 0), fact.place.line)
    return last
