#!/usr/bin/env bash
# Installs the Debian packages that a set of jobs needs, as far as they are missing:
#   tools/install_packages.sh JOB...      JOB: run, build, test, hdfs, bench, analyse, dist,
#                                           test-dist
# Without the right to install it names the missing packages and stops. Leaves apt alone when nothing
# is missing.
set -euo pipefail

declare -A packages_of=(
  [run]="python3 python3-venv"
  [build]="python3-venv g++ cmake ninja-build ccache libboost1.81-dev libssl-dev nlohmann-json3-dev libcli11-dev
           libspdlog-dev libfmt-dev zlib1g-dev python3-dev"
  [test]="libgtest-dev libgmock-dev iproute2 tcpdump tcpflow chromium chromium-driver"
  [hdfs]=""
  [bench]="libgloo-dev"
  [analyse]="git clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev"
  [dist]="git gcc-12 g++-12 gcc-12-aarch64-linux-gnu g++-12-aarch64-linux-gnu libc6-dev-arm64-cross make perl"
  [test-dist]="debootstrap qemu-user-static binfmt-support"
)

# Spark needs some Java of 17 or newer; which package brings it doesn't matter.
has_java() {
  local java=java version
  [[ -n ${JAVA_HOME:-} ]] && java=$JAVA_HOME/bin/java
  version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p') || return 1
  [[ -n $version ]] && ((version >= 17))
}

# The build needs the headers of a Java (jni.h), again of whichever.
has_java_headers() {
  compgen -G '/usr/lib/jvm/*/include/jni.h' >/dev/null || [[ -e ${JAVA_HOME:-}/include/jni.h ]]
}

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

missing=()
for job in "$@"; do
  for package in ${packages_of[$job]?unknown job $job}; do
    is_installed "$package" || missing+=("$package")
  done
  if [[ $job == run ]] && ! has_java; then
    if [[ -n ${JAVA_HOME:-} ]]; then
      echo "JAVA_HOME is $JAVA_HOME, and Spark 4 needs a Java of 17 or newer there: unset it, or" \
        "let it name one." >&2
      exit 1
    fi
    missing+=(openjdk-17-jre-headless)
  fi
  if [[ $job == build ]] && ! { has_java_headers && command -v javac >/dev/null; }; then
    missing+=(openjdk-17-jdk-headless)
  fi
  # Makes the jar, and fetches those of a real HDFS; however it came here.
  if [[ $job == build || $job == hdfs ]] && ! command -v mvn >/dev/null; then
    missing+=(maven)
  fi
done

if ((${#missing[@]} == 0)); then
  echo "All Debian packages for $* are installed."
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null || ! sudo -v; then
    echo "These Debian packages are missing, and installing them needs root or sudo:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
# Another apt may be at work, such as the nightly upgrades.
lock_seconds=300
echo "Installing: ${missing[*]}"
echo "If another program holds the lock of dpkg, this waits up to $lock_seconds s for it."
# `apt-get update` fails at once where its own lock is held, whatever it is told.
until said=$("${as_root[@]}" apt-get update -qq 2>&1); do
  if [[ $said != */var/lib/apt/lists/lock* ]] || ((SECONDS > lock_seconds)); then
    echo "$said" >&2
    exit 1
  fi
  sleep 2
done
root=$(cd "$(dirname "$0")/.." && pwd)
"$root"/tools/logged.sh "$root"/build/packages.log "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -o "DPkg::Lock::Timeout=$lock_seconds" install -y --no-install-recommends "${missing[@]}"
