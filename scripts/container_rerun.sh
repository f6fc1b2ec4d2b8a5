#!/usr/bin/env bash
# scripts/container_rerun.sh OUT.csv: builds the image if its inputs changed, computes the tables of the smoke
# study in it, in a new folder, and writes the digest of each to OUT.csv. scripts/compare_digests.py compares them with
# another run.
set -euo pipefail
repository=$(dirname "$(dirname "$(readlink -f "$0")")")
digests=$(readlink -m "$1")
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
"$repository/.venv/bin/snakemake" results/smoke/fabricast.duckdb --profile profiles/apptainer --quiet \
  --configfile config/studies/smoke.yaml > "$folder/output.txt" 2>&1 || { tail -40 "$folder/output.txt" >&2; exit 1; }
"$repository/.venv/bin/python" - "$digests" << 'END'
import sys
import duckdb
with duckdb.connect("results/smoke/fabricast.duckdb", read_only=True) as connection:
    connection.sql("SELECT table_name, digest FROM table_digest").write_csv(sys.argv[1])
END
