#!/usr/bin/env bash
# scripts/check_wheel.sh FOLDER: builds wheel and source archive into FOLDER, installs the wheel with its dependencies only
# in a new environment outside this repository, and runs a forecast, a collective, a mapping and a diagnosis there.
set -euo pipefail
repository=$(dirname "$(dirname "$(readlink -f "$0")")")
folder=$(readlink -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet --disable-pip-version-check build
"$work/build/bin/python" -m build --quiet --outdir "$folder" "$repository"
python3 -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check "$folder"/fabricast-*.whl
cd "$work"
fabricast=$work/env/bin/fabricast
"$fabricast" --version
"$fabricast" predict storm8 --copies '0>2 1>4' --format table
"$fabricast" collective crossed_virtual_switches --gpu 'RTX PRO 6000' --cpu 'AMD EPYC' --sizes 1MiB --format table
"$fabricast" map halo:4x4x4 --network dragonfly:9,4,2,2 --proposals 1000
"$fabricast" reference --gpu H100 | head -5
"$work/env/bin/python" -c "
import fabricast as fc
tree = fc.load_topology('pcie5_four_switches')
times = fc.predict(tree, fc.all_to_all(tree, size='64 MiB'))
print(f\"{times['elapsed_s'].max() * 1e3:.1f} ms\")
"
echo "the wheel works: $(ls "$folder"/fabricast-*.whl)"
