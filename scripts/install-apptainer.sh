#!/usr/bin/env bash
# Installs Apptainer on Debian as root: from the own release where it has it, otherwise Debian sid's package
# with a private copy of its libc, so that the machine's libc stays as it is. A second call does nothing.
set -euo pipefail
suite=${APPTAINER_SUITE:-sid}
work=${WORK:-$(mktemp -d)}; chmod 755 "$work"
stamp() { printf '[%(%T)T] %s\n' -1 "$*" >&2; }

if command -v apptainer >/dev/null && apptainer --version >/dev/null 2>&1; then
    stamp "already there: $(apptainer --version)"; exit 0
fi
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "expected root on Debian" >&2; exit 2; }
export DEBIAN_FRONTEND=noninteractive
apt="apt-get -qq -o DPkg::Lock::Timeout=600"
command -v patchelf >/dev/null || $apt install -y --no-install-recommends patchelf >/dev/null

# The mirror that the host's apt already uses (never a literal host).
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(RELEASE)' 'Created-By: Packages' |
    awk '$2=="Debian" && $3 !~ /security|updates|backports/ {print $1; exit}')
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -n "$mirror" ] || { echo "no Debian mirror in the apt configuration" >&2; exit 2; }

# If the own release has it (Debian 14 and later) take that.
if apt-cache policy apptainer | grep -q 'Candidate: [0-9]'; then
    $apt install -y --no-install-recommends apptainer; exit 0
fi

# A throw-away apt state, so that the machine's lists and pins stay as they are.
mkdir -p "$work"/{lists/partial,cache/archives/partial,deb,libc,out}
printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$work/s.list"
opt=(-qq -o Dir::Etc::sourcelist="$work/s.list" -o Dir::Etc::sourceparts=/dev/null
     -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache"
     -o Acquire::Languages=none -o APT::Get::List-Cleanup=0)
stamp "index of $suite"
apt-get "${opt[@]}" update
stamp "download"
# 'apt-get download' checks the hashes against the signed index
(cd "$work" && apt-get "${opt[@]}" -o APT::Sandbox::User=root download apptainer libc6)
dpkg-deb -R "$work"/apptainer_*.deb "$work/deb"
dpkg-deb -x "$work"/libc6_*.deb "$work/libc"

stamp "private libc and patchelf"
lib=/usr/lib/x86_64-linux-gnu/apptainer/libc
mkdir -p "$work/deb$lib"
src=$(dirname "$(find "$work/libc" -name 'libc.so.6' | head -1)")
for f in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libresolv.so.2 libpthread.so.0 libdl.so.2 librt.so.1; do
    install -m 755 "$src/$f" "$work/deb$lib/$f"
done
for b in usr/bin/apptainer usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
    patchelf --set-interpreter "$lib/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$lib" "$work/deb/$b"
done

# Same package under a version of its own; only the libc bound goes.
sed -i -e '/^Version:/s/$/+privatelibc1/' -e '/^Depends:/s/libc6 ([^)]*)/libc6/' "$work/deb/DEBIAN/control"
(cd "$work/deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
out="$work/out/$(basename "$work"/apptainer_*.deb .deb)+privatelibc1.deb"
dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/deb" "$out" >/dev/null
stamp "install $(basename "$out")"
$apt install -y --no-install-recommends "$out" >/dev/null
ldd /usr/bin/apptainer /usr/lib/x86_64-linux-gnu/apptainer/bin/starter | grep 'not found' && exit 4
apptainer --version
