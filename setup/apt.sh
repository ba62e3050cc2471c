#!/usr/bin/env bash
# Installs the Debian packages listed in a file, those that are missing.
# Not root: prints the line to type and goes on; the build says what it truly lacks.
set -euo pipefail
list=$1
missing=()
while read -r package; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done <"$list"
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "missing packages; to install them: sudo apt-get install ${missing[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
wait="-o DPkg::Lock::Timeout=300"  # seconds, for another apt: Debian runs one by itself
apt-get $wait update -qq
apt-get $wait install -y -qq --no-install-recommends "${missing[@]}" </dev/null
