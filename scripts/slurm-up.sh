#!/usr/bin/env bash
# Brings up a throw-away SLURM cluster (munged, slurmctld, N slurmd) on this machine, for trials; Debian, root.
# No systemd, no cgroups, no database, every socket on 127.0.0.1.
#   slurm-up.sh [-d DIR] [-n NODES] [-c CPUS_PER_NODE] [-b BASEPORT]
# Then:  export SLURM_CONF=DIR/slurm.conf ; sinfo ; ...
# Stop:  slurm-up.sh --down DIR
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

cluster_of() { echo "t$(printf %s "$1" | cksum | cut -d' ' -f1)"; }
down() {
    local d=$1 p e
    for p in "$d"/run/slurmd.*.pid "$d"/run/slurmctld.pid "$d"/run/munged.pid; do
        [ -s "$p" ] || continue
        kill "$(cat "$p")" 2>/dev/null || true
    done
    [ "$(readlink /etc/slurm/slurm.conf 2>/dev/null)" = "$d/slurm.conf" ] && rm -f /etc/slurm/slurm.conf
    for p in "$d"/run/*.pid; do
        [ -s "$p" ] || continue
        for _ in $(seq 50); do kill -0 "$(cat "$p" 2>/dev/null)" 2>/dev/null || break; sleep 0.1; done
    done
}
# Job processes that lost their parents escape proctrack/linuxproc: end each by
# its pid, known by this cluster's name in its environment.
reap() {
    local c e p
    c=$(cluster_of "$1")
    for e in /proc/[0-9]*/environ; do
        grep -qz "^SLURM_CLUSTER_NAME=$c$" "$e" 2>/dev/null || continue
        p=${e#/proc/}; p=${p%/environ}
        [ "$p" = "$$" ] || kill -9 "$p" 2>/dev/null || true
    done
}
if [ "${1:-}" = --down ]; then down "$2"; reap "$2"; exit 0; fi

dir=${TMPDIR:-/tmp}/slurm-test; nodes=2; cpus=2; base=16817
while getopts d:n:c:b: o; do case $o in
    d) dir=$OPTARG ;; n) nodes=$OPTARG ;; c) cpus=$OPTARG ;; b) base=$OPTARG ;; *) exit 2 ;; esac; done

if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
    # /usr/sbin/policy-rc.d (exit 101) keeps the packages from starting services
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 \
        install -y --no-install-recommends slurm-wlm munge >/dev/null
fi
down "$dir"; rm -rf "$dir"
mkdir -p "$dir"/{run,log,state,munge}; chmod 711 "$dir"; chmod 700 "$dir/munge"
host=$(hostname -s); user=$(id -un); cluster=$(cluster_of "$dir")

# munge with its own key and socket
head -c 1024 /dev/urandom >"$dir/munge/munge.key"; chmod 600 "$dir/munge/munge.key"
munged --force --key-file="$dir/munge/munge.key" --socket="$dir/run/munge.sock" \
    --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" \
    --seed-file="$dir/munge/munged.seed" --num-threads=2 2>"$dir/log/munged.err"

cat >"$dir/slurm.conf" <<CONF
ClusterName=$cluster
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
# no cgroups, no accounting database
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobcomp.txt
MpiDefault=none
SwitchType=switch/none
# quick reactions; MinJobAge >= 3 x the executor's polling interval, or its
# squeue polling falls back to sacct (which fails without accounting)
MinJobAge=600
KillWait=2
OverTimeLimit=0
InactiveLimit=0
ReturnToService=2
SlurmdTimeout=30
SlurmctldTimeout=30
MaxArraySize=1001
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/state/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
DefMemPerCPU=500
NodeName=node[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base+1))-$((base+nodes))] CPUs=$cpus RealMemory=4000 State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=10 State=UP
PartitionName=long  Nodes=ALL Default=NO MaxTime=INFINITE State=UP
CONF
# The jobstep plugin drops SLURM_CONF from the environment before it calls srun,
# so the configuration has to be where SLURM looks by itself.
mkdir -p /etc/slurm
if [ -e /etc/slurm/slurm.conf ] && [ ! -L /etc/slurm/slurm.conf ]; then
    echo "/etc/slurm/slurm.conf is not ours" >&2; exit 3
fi
ln -sfn "$dir/slurm.conf" /etc/slurm/slurm.conf
export SLURM_CONF=$dir/slurm.conf
slurmctld -c -f "$SLURM_CONF" >"$dir/log/slurmctld.out" 2>&1
for i in $(seq "$nodes"); do
    mkdir -p "$dir/state/node$i"
    slurmd -N "node$i" -f "$SLURM_CONF" >"$dir/log/slurmd.node$i.out" 2>&1
done
for _ in $(seq 150); do
    [ "$(sinfo -h -N -p short -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$nodes" ] && break
    sleep 0.2
done
sinfo -N -l
[ "$(sinfo -h -N -p short -t idle -o %N | sort -u | wc -l)" = "$nodes" ]
echo "export SLURM_CONF=$SLURM_CONF" | tee "$dir/env.sh"
