#!/usr/bin/env bash
# containers/build.sh [OUT.sif [WORKDIR]]: an image whose bytes depend on Debian's suite and envs/requirements.txt only.
# Needs root, apptainer, mmdebstrap and squashfs-tools; no registry of images. Made only if its inputs changed.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
out=$(readlink -m "${1:-$here/fabricast.sif}")
lock=$(readlink -f "$here/../envs/requirements.txt")
inputs=$(cat "$lock" "$here/fabricast.def" "$here/build.sh" "$here/seal.py" | sha256sum | cut -d' ' -f1)
if [ -s "$out" ] && [ "$(cat "$out.inputs" 2> /dev/null)" = "$inputs" ]; then
  echo "unchanged: $out"
  exit 0
fi
work=${2:-$(mktemp -d)}
mkdir -p "$work"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1767225600} LC_ALL=C TMPDIR=$work
# A root without some capability: Apptainer would ask for all of them.
if [ "$(id -u)" = 0 ]; then
  APPTAINER_DROP_CAPS=$("$here/missing_capabilities.py")
  export APPTAINER_DROP_CAPS
fi
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(RELEASE)' 'Created-By: Packages' |
  awk '$2=="Debian" && $3 !~ /security|updates|backports/ {print $1; exit}')
[ -n "$mirror" ] || { echo "no Debian mirror in the configuration of apt" >&2; exit 2; }
mmdebstrap --mode=root --variant=apt --quiet --include=python3,python3-venv,ca-certificates \
  --aptopt='Acquire::Check-Valid-Until "false"' --customize-hook='rm -f "$1/etc/apt/sources.list"' \
  "${SUITE:-bookworm}" "$work/base.tar" "$mirror"
rm -rf "$work/rootfs" "$work/box"
mkdir "$work/rootfs"
tar -C "$work/rootfs" -xf "$work/base.tar"
# The wheels must suit the image's Python, 3.11 in bookworm; hashes are checked here.
"${PYTHON:-python3}" -m venv "$work/pip"
"$work/pip/bin/pip" wheel --quiet --disable-pip-version-check --require-hashes --no-deps -r "$lock" -w "$work/wheels"
apptainer build --force --sandbox --bind "$work/wheels:/mnt" --build-arg BOOTSTRAP=localimage \
  --build-arg "FROM=$work/rootfs" --build-arg "LOCK=$lock" "$work/box" "$here/fabricast.def" > "$work/build.log" 2>&1 ||
  { tail -30 "$work/build.log" >&2; exit 1; }
MKSQUASHFS_ARGS=${MKSQUASHFS_ARGS:--comp zstd -Xcompression-level 3} "$here/seal.py" "$work/box" "$out"
echo "$inputs" > "$out.inputs"
[ $# -ge 2 ] || rm -rf "$work"
