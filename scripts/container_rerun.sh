#!/usr/bin/env bash
# scripts/container_rerun.sh OUT.csv [STUDY ...]: builds the image if its inputs changed, computes the tables of the smoke
# study, or of some studies only, in it, in a new folder, and writes the digest of each to OUT.csv.
# scripts/compare_digests.py compares them with another run.
set -euo pipefail
repository=$(dirname "$(dirname "$(readlink -f "$0")")")
digests=$(readlink -m "$1")
cd "$repository"
containers/build.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r Snakefile workflow config envs profiles src CITATION.cff "$folder/"
mkdir "$folder/containers"
cp "$repository/containers/missing_capabilities.py" "$folder/containers/"
ln "$repository/containers/fabricast.sif" "$folder/containers/" 2> /dev/null ||
  cp "$repository/containers/fabricast.sif" "$folder/containers/"
cd "$folder"
targets=(results/smoke/fabricast.duckdb)
if [ $# -gt 1 ]; then
  targets=()
  for study in "${@:2}"; do targets+=("results/smoke/$study/all.comparison.parquet"); done
fi
"$repository/.venv/bin/snakemake" "${targets[@]}" --profile profiles/apptainer --quiet \
  --configfile config/studies/smoke.yaml > "$folder/output.txt" 2>&1 || { tail -40 "$folder/output.txt" >&2; exit 1; }
"$repository/.venv/bin/python" "$repository/scripts/table_digests.py" results/smoke "$digests"
