#!/usr/bin/env bash
# scripts/slurm_trial.sh DIGESTS: runs the smoke study through a real SLURM of two nodes on this machine, kills one of its
# jobs on the way, and compares every table with DIGESTS (a database, or the CSV of its table_digest) of a local run.
# Debian, root; needs the group hpc (uv sync --locked --extra hpc). Installs slurm-wlm and munge if they are missing.
set -euo pipefail
repository=$(dirname "$(dirname "$(readlink -f "$0")")")
digests=$(readlink -f "$1")
folder=$(mktemp -d)
chmod 755 "$folder"
trap '"$repository/scripts/slurm-up.sh" --down "$folder/cluster" || true; rm -rf "$folder"' EXIT
"$repository/scripts/slurm-up.sh" -d "$folder/cluster" > /dev/null
export SLURM_CONF=$folder/cluster/slurm.conf
mkdir "$folder/study"
cp -r "$repository"/{Snakefile,workflow,config,profiles,src,CITATION.cff} "$folder/study/"
cd "$folder/study"
# The first job that runs for two seconds is cancelled, as an operator would; it must be tried again.
( for _ in $(seq 600); do
    job=$(squeue -h -t R -o '%i %M' | awk '{split($2, t, ":"); if (t[1] * 60 + t[2] >= 2) {print $1; exit}}')
    if [ -n "$job" ]; then scancel "$job"; echo "cancelled job $job"; break; fi
    sleep 0.5
  done ) &
"$repository/.venv/bin/snakemake" --profile profiles/slurm --configfile config/studies/smoke.yaml --slurm-no-account \
  --slurm-init-seconds-before-status-checks 3 --latency-wait 5 --quiet \
  --default-resources slurm_partition=short runtime=10 mem_mb=1500 > output.txt 2>&1 || { tail -40 output.txt >&2; exit 1; }
wait
grep -c JobState=CANCELLED "$folder/cluster/log/jobcomp.txt" | sed 's/$/ job cancelled and tried again/'
"$repository/.venv/bin/python" "$repository/scripts/compare_digests.py" "$digests" results/fabricast.duckdb
