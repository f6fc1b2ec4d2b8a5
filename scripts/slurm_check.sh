#!/usr/bin/env bash
# scripts/slurm_check.sh DIGESTS: the slurm profile on a real SLURM of two nodes on this machine (Debian, root, about
# seven minutes). Jobs that the scheduler ends are retried; a job over its time limit fails cleanly and a rerun
# completes; the smoke study, with one job cancelled and the whole run cancelled in the middle, has the tables of
# DIGESTS (a database, or the CSV of its table_digest, of a run on the host).
set -uo pipefail
repository=$(dirname "$(dirname "$(readlink -f "$0")")")
digests=$(readlink -f "$1")
export PATH=$repository/.venv/bin:$PATH
python -c "import snakemake_executor_plugin_slurm" 2> /dev/null || {
  echo "the group hpc is not installed: see docs/howto/cluster.md" >&2; exit 2
}
work=$(mktemp -d); chmod 711 "$work"
failures=0
"$repository/scripts/slurm_cluster.sh" up "$work/cluster" || exit 1
trap 'jobs -p | xargs -r kill 2> /dev/null; "$repository/scripts/slurm_cluster.sh" down "$work/cluster"; [ "$failures" = 0 ] && rm -rf "$work"' EXIT
export SLURM_CONF=$work/cluster/slurm.conf
jobs=$work/cluster/log/jobs.txt

expect() {
  if eval "$2"; then echo "ok    $1"; else echo "FAIL  $1   ($work)"; failures=$((failures + 1)); fi
}
ended_as() { grep -c "JobState=$1 " "$jobs"; }
# The shipped profile; only how often it looks and how much a job asks for fit this small cluster.
through_slurm() {
  # A background process of a script would ignore an interrupt; in the foreground, timeout passes it on once.
  env --default-signal=INT timeout --foreground -k 60 900 snakemake --profile "$repository/profiles/slurm" --slurm-init-seconds-before-status-checks 2 \
    --latency-wait 5 --jobs 6 --slurm-no-account "$@"
}

mkdir "$work/limits" "$work/over"
cp "$repository/tests/slurm/Snakefile" "$work/limits/"
cp "$repository/tests/slurm/Snakefile" "$work/over/"

# Two workflows side by side, since a time limit is a minute at least.
cd "$work/over"
through_slurm --retries 0 results/late_once.txt > first.log 2>&1 &
over=$!
cd "$work/limits"
(until [ -s cancel_me ]; do sleep 0.5; done; sleep 2; scancel "$(cat cancel_me)") &
through_slurm > log.txt 2>&1
expect "jobs that the scheduler ended were retried and the run succeeded" '[ '$?' = 0 ]'
wait $over
expect "without retries a job over its time limit fails the run" '[ '$?' != 0 ]'
expect "and leaves no half-written output" '[ ! -e "$work/over/results/late_once.txt" ]'
cd "$work/over"
through_slurm --retries 0 results/late_once.txt > second.log 2>&1
expect "a rerun completes" '[ '$?' = 0 ] && [ "$(cat results/late_once.txt)" = 1 ]'
cd "$work/limits"
expect "two jobs ended at their time limit" '[ "$(ended_as TIMEOUT)" = 2 ]'
expect "one was cancelled" '[ "$(ended_as CANCELLED)" = 1 ]'
expect "one failed for want of memory, and its retry got twice as much" \
  '[ "$(ended_as FAILED)" = 1 ] && [ "$(cat results/needs_more_memory.txt)" = 200 ]'
expect "the late one's retry had two minutes" '[ "$(cat results/late_once.txt)" = 2 ]'
expect "both nodes worked" '[ "$(cut -d" " -f2 results/parts.txt | sort -u | wc -l)" = 2 ]'

mkdir "$work/smoke"
before=$(ended_as CANCELLED)
cp -r "$repository"/{Snakefile,workflow,config,envs,profiles,src,CITATION.cff} "$work/smoke/"
cd "$work/smoke"
printf 'pcie: {shards: 3}\npercs: {shards: 3}\n' > shards.yaml
smoke() {
  through_slurm --configfile config/studies/smoke.yaml shards.yaml "$@"
}
# One job is cancelled; the run itself as soon as six jobs are done.
(until victim=$(squeue -h -t running -o %i | head -1) && [ -n "$victim" ]; do sleep 0.5; done; sleep 3; scancel "$victim") &
smoke > first.log 2>&1 &
run=$!
ended() { grep -cE '^ *[0-9]+/[0-9]+ ' first.log; }
until [ "$(ended)" -ge 6 ] || ! kill -0 $run 2> /dev/null; do sleep 0.5; done
pkill -INT -P $run -f snakemake
wait $run
expect "the run that was cancelled in the middle ends with an error" \
  '[ '$?' != 0 ] && [ "$(ended)" -ge 6 ] && [ ! -e results/smoke/fabricast.duckdb ]'
sleep 5
expect "and leaves no job in the queue" '[ -z "$(squeue -h -t pending,running)" ]'
smoke > second.log 2>&1
expect "it resumes and completes" '[ '$?' = 0 ]'
expect "one job was cancelled alone, and the running ones with the run" \
  '[ "$(ended_as CANCELLED)" -ge $((before + 2)) ]'
expect "without a temporary file" '[ -z "$(find . -name "*.part*")" ]'
python "$repository/scripts/compare_digests.py" "$digests" results/smoke/fabricast.duckdb
expect "every table equals that of the host" '[ '$?' = 0 ]'
expect "a further run has nothing to do" 'smoke 2>&1 | grep -q "Nothing to be done"'
[ "$failures" = 0 ]
