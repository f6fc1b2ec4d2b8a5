#!/usr/bin/env bash
# A throw-away SLURM cluster on this machine (Debian, root): munged, slurmctld and two slurmd, all on 127.0.0.1,
# without systemd, cgroups and accounting.
#   slurm_cluster.sh up FOLDER      then: export SLURM_CONF=FOLDER/slurm.conf
#   slurm_cluster.sh down FOLDER
# States of all jobs: FOLDER/log/jobs.txt.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
action=$1 folder=$(readlink -m "$2") nodes=2 cores=2 port=16817

cluster=fabricast$(printf %s "$folder" | cksum | cut -d' ' -f1)

stop_daemons() {
  local file number
  for file in "$folder"/run/slurmd.*.pid "$folder/run/slurmctld.pid" "$folder/run/munged.pid"; do
    [ -s "$file" ] && kill "$(cat "$file")" 2> /dev/null || true
  done
  for file in "$folder"/run/*.pid; do
    [ -s "$file" ] || continue
    for number in $(seq 50); do kill -0 "$(cat "$file" 2> /dev/null)" 2> /dev/null || break; sleep 0.1; done
  done
  if [ "$(readlink /etc/slurm/slurm.conf 2> /dev/null)" = "$folder/slurm.conf" ]; then rm -f /etc/slurm/slurm.conf; fi
}

# What a killed job started may have lost its parents: it is known by this cluster's name in its environment.
stop_orphans() {
  local environment process
  for environment in /proc/[0-9]*/environ; do
    grep -qz "^SLURM_CLUSTER_NAME=$cluster$" "$environment" 2> /dev/null || continue
    process=${environment#/proc/}; process=${process%/environ}
    [ "$process" = "$$" ] || kill -9 "$process" 2> /dev/null || true
  done
}

if [ "$action" = down ]; then stop_daemons; stop_orphans; exit 0; fi
[ "$action" = up ] || { echo "expected up or down, got '$action'" >&2; exit 2; }

if ! command -v slurmctld > /dev/null || ! command -v munged > /dev/null; then
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 \
    install -y --no-install-recommends slurm-wlm munge > /dev/null
fi
if [ -e /etc/slurm/slurm.conf ] && ! grep -q '^ClusterName=fabricast' /etc/slurm/slurm.conf; then
  echo "/etc/slurm/slurm.conf is that of another cluster" >&2; exit 3
fi
if [ -e "$folder" ] && ! grep -qs '^ClusterName=fabricast' "$folder/slurm.conf"; then
  echo "$folder is there and holds no cluster of this script" >&2; exit 3
fi
stop_daemons; rm -rf "$folder"
mkdir -p "$folder"/{run,log,state,munge}; chmod 711 "$folder"; chmod 700 "$folder/munge"
host=$(hostname -s) user=$(id -un)

head -c 1024 /dev/urandom > "$folder/munge/munge.key"; chmod 600 "$folder/munge/munge.key"
munged --force --key-file="$folder/munge/munge.key" --socket="$folder/run/munge.sock" \
  --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
  --seed-file="$folder/munge/munged.seed" --num-threads=2 2> "$folder/log/munged.err"

# MinJobAge of at least three polling intervals, or polling by squeue falls back to sacct, which is not there.
cat > "$folder/slurm.conf" << CONF
ClusterName=$cluster
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/log/jobs.txt
MpiDefault=none
SwitchType=switch/none
MinJobAge=600
KillWait=2
OverTimeLimit=0
InactiveLimit=0
ReturnToService=2
SlurmdTimeout=30
SlurmctldTimeout=30
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/state/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
DefMemPerCPU=500
NodeName=node[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=$cores RealMemory=8000 State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=240 State=UP
CONF
# srun inside a job looks here, whatever SLURM_CONF says.
mkdir -p /etc/slurm
ln -sfn "$folder/slurm.conf" /etc/slurm/slurm.conf
export SLURM_CONF=$folder/slurm.conf
slurmctld -c -f "$SLURM_CONF" > "$folder/log/slurmctld.out" 2>&1
for node in $(seq "$nodes"); do
  mkdir -p "$folder/state/node$node"
  slurmd -N "node$node" -f "$SLURM_CONF" > "$folder/log/slurmd.node$node.out" 2>&1
done
idle() { sinfo -h -N -t idle -o %N 2> /dev/null | sort -u | wc -l; }
for number in $(seq 150); do [ "$(idle)" = "$nodes" ] && break; sleep 0.2; done
[ "$(idle)" = "$nodes" ] || { sinfo -N -l >&2; echo "the nodes did not come up; see $folder/log" >&2; exit 1; }
echo "SLURM with $nodes nodes of $cores cores: export SLURM_CONF=$SLURM_CONF"
