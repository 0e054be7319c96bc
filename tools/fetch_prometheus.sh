#!/usr/bin/env bash
# Fetches Debian's Prometheus for tests, without installing it, which would start a server of its own:
#   tools/fetch_prometheus.sh [FOLDER]
# Then there are FOLDER/usr/bin/prometheus and promtool; by default FOLDER is build/prometheus. apt
# checks the package against Debian's signatures. Does nothing when it is there.
set -euo pipefail

folder=${1:-$(dirname "$0")/../build/prometheus}
if [[ -x $folder/usr/bin/prometheus ]]; then
  echo "Prometheus is in $folder."
  exit 0
fi
mkdir -p "$folder"
cd "$folder"
if ! apt-get download --quiet --quiet prometheus; then
  echo "Debian's package prometheus can't be downloaded: run apt-get update, and see that its archive can be reached" >&2
  exit 1
fi
dpkg-deb --extract prometheus_*.deb .
rm prometheus_*.deb
usr/bin/prometheus --version 2>&1 | head -n 1
