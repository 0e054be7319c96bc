#!/usr/bin/env python3
"""Takes a wheel of dist/ to an old Debian that has never seen the source, and runs it there.

    tools/dist/try_wheel.py [--machine x86_64]

`make test-dist` runs it. Needs root, debootstrap and, for another processor, QEMU's user emulation.
The Debian is 11, with glibc 2.31, Java and no compiler; CPython comes from Maven Central. There the
wheel is installed, `tfos doctor` looks at it, and the tests of feed and codec run. On this machine's
own processor the quickstart trains two nodes, too: TensorFlow is slow under emulation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import make_dist
import wheels
from sysroot import run
from targets import TARGETS, Target

RELEASE = "bullseye"
MIRROR = "http://deb.debian.org/debian"
PYTHON = "3.11"
#: Debian's names of processors.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SPARK = "pyspark[sql]==4.1.4"
TENSORFLOW = "tensorflow-cpu==2.21.0"
OF_TESTS = ("pytest", "pytest-timeout", "psutil")
TESTS = ("tests/python/feed/test_native.py", "tests/python/feed/test_row_codec.py")
#: Of the repository, what tests and examples consist of.
SOURCES = ("tests", "tools", "examples", "pyproject.toml")
#: Its own processes and mounts, which end with it.
INSIDE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
MOUNT = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'


def make_root(target: Target) -> Path:
    """A Debian for ``target`` with Java, made once."""
    root = make_dist.BUILD / f"debian-{target.machine}"
    made = root / "made"
    if not made.exists():
        print(f"Making a Debian 11 for {target.machine} in {root} (minutes)", flush=True)
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        run(
            "debootstrap", "--variant=minbase", f"--arch={ARCHITECTURES[target.machine]}",
            "--include=openjdk-17-jre-headless,procps", RELEASE, root, MIRROR,
        )
        made.touch()
    return root


class Host:
    """A Debian in a folder, with CPython in /opt/python."""

    def __init__(self, root: Path, target: Target):
        self.root = root
        python = wheels.Python(PYTHON, target, make_dist.BUILD / "downloads")
        home = root / "opt" / "python"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(python.folder(target.cpython), home)
        for program in (home / "bin").iterdir():
            program.chmod(0o755)
        for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), CERTIFICATES):
            copy = root / file.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)

    def run(self, *command: str) -> None:
        """Runs ``command`` there, with CPython's programs on the PATH. Raises CalledProcessError."""
        print("$", *command, flush=True)
        environment = {
            "PATH": "/opt/python/bin:/usr/bin:/bin:/usr/sbin", "HOME": "/root", "LANG": "C.UTF-8",
            "LD_LIBRARY_PATH": "/opt/python", "PYTHONHOME": "/opt/python",
            "PYSPARK_PYTHON": "/opt/python/bin/python3.11",
            "SSL_CERT_FILE": str(CERTIFICATES), "PIP_CERT": str(CERTIFICATES),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore",
        }
        subprocess.run([*INSIDE, "sh", "-c", MOUNT, self.root, *command], check=True,
                       env=environment)

    def install(self, *packages: str) -> None:
        """Installs ``packages`` of PyPI, or files."""
        self.run("python3.11", "/root/pip.whl/pip", "install", "--quiet", *packages)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=os.uname().machine, choices=TARGETS)
    target = TARGETS[parser.parse_args().machine]
    found = list(make_dist.OUT.glob(f"*-cp311-*{target.machine}.whl"))
    if not found:
        print(f"dist/ has no wheel for CPython {PYTHON} on {target.machine}: run `make dist`",
              file=sys.stderr)
        return 1
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("This needs root, and Debian's package debootstrap", file=sys.stderr)
        return 1
    (wheel,) = found
    host = Host(make_root(target), target)
    home = host.root / "root"
    shutil.copy(wheel, home)
    tools, _ = make_dist.make_tools()
    run(tools, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", home, "pip")
    next(home.glob("pip-*.whl")).replace(home / "pip.whl")
    for source in SOURCES:
        run("cp", "-r", wheels.ROOT / source, home)
    host.install(f"/root/{wheel.name}")
    host.install(SPARK, *OF_TESTS)
    host.run("sh", "-c", f"cd /root && python3.11 -m pytest -q --timeout 1000 {' '.join(TESTS)}")
    if target.machine == os.uname().machine:
        host.install(TENSORFLOW)
        host.run("tfos", "doctor")
        host.run("python3.11", "/root/examples/quickstart.py")
    print(f"{wheel.name} runs on Debian 11")
    return 0


if __name__ == "__main__":
    sys.exit(main())
