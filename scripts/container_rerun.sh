#!/usr/bin/env bash
# scripts/container_rerun.sh DIGESTS: builds the image if its inputs changed, runs the smoke study in it in a new
# folder, and compares every table with DIGESTS (a database, or the CSV of its table_digest) of a run on the host.
set -euo pipefail
repository=$(dirname "$(dirname "$(readlink -f "$0")")")
digests=$(readlink -f "$1")
cd "$repository"
containers/build.sh
if [ "$(id -u)" = 0 ]; then
  APPTAINER_DROP_CAPS=$(containers/missing_capabilities.py)
  export APPTAINER_DROP_CAPS
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r Snakefile workflow config envs profiles src CITATION.cff "$folder/"
mkdir "$folder/containers"
ln "$repository/containers/fabricast.sif" "$folder/containers/" 2> /dev/null ||
  cp "$repository/containers/fabricast.sif" "$folder/containers/"
cd "$folder"
"$repository/.venv/bin/snakemake" --profile profiles/apptainer --configfile config/studies/smoke.yaml --quiet \
  > "$folder/output.txt" 2>&1 || { tail -40 "$folder/output.txt" >&2; exit 1; }
"$repository/.venv/bin/python" "$repository/scripts/compare_digests.py" "$digests" results/smoke/fabricast.duckdb
