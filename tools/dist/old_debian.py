"""A Debian 11 in a folder, for whichever processor, that has never seen the source: where wheels of
a release are tried."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import make_dist
import wheels
from sysroot import run
from targets import Target

RELEASE = "bullseye"
MIRROR = "http://deb.debian.org/debian"
PYTHON = "3.11"
#: Debian's names of processors.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: Where Linux is told which program runs those of another processor.
BINFMT = Path("/proc/sys/fs/binfmt_misc")
#: Its own processes and mounts, which end with it.
INSIDE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
MOUNT = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'


def enable_emulation(target: Target) -> None:
    """Has Linux run ``target``'s programs with QEMU, if this machine has another processor. Where
    systemd doesn't run, nobody has done it at the start."""
    name = f"qemu-{target.machine}"
    if target.machine == os.uname().machine or (BINFMT / name).exists():
        return
    if not (BINFMT / "register").exists():
        run("mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT)
    run("update-binfmts", "--enable", name)
    if not (BINFMT / name).exists():
        raise RuntimeError(
            f"This machine can't run programs for {target.machine}: {BINFMT / name} "
            "is missing; install qemu-user-static and binfmt-support"
        )


def make_root(target: Target) -> Path:
    """A Debian for ``target`` with Java, made once."""
    root = make_dist.BUILD / f"debian-{target.machine}"
    made = root / "made"
    if not made.exists():
        print(f"Making a Debian 11 for {target.machine} in {root} (minutes)", flush=True)
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        run(
            "debootstrap",
            "--variant=minbase",
            f"--arch={ARCHITECTURES[target.machine]}",
            "--include=openjdk-17-jre-headless,procps",
            RELEASE,
            root,
            MIRROR,
        )
        made.touch()
    return root


class Host:
    """A Debian in a folder, with CPython in /opt/python and nothing else of Python. Owner: one
    program at a time; what it installs there is gone when the next makes a Host of the folder."""

    def __init__(self, root: Path, target: Target):
        self.root = root
        self.home = root / "root"
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
        """Runs ``command`` there, with CPython's programs on the PATH. Raises CalledProcessError if
        it fails."""
        print("$", *command, flush=True)
        environment = {
            "PATH": "/opt/python/bin:/usr/bin:/bin:/usr/sbin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "LD_LIBRARY_PATH": "/opt/python",
            "PYTHONHOME": "/opt/python",
            "PYSPARK_PYTHON": "/opt/python/bin/python3.11",
            "SSL_CERT_FILE": str(CERTIFICATES),
            "PIP_CERT": str(CERTIFICATES),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        subprocess.run(
            [*INSIDE, "sh", "-c", MOUNT, self.root, *command], check=True, env=environment
        )

    def install(self, *packages: str) -> None:
        """Installs ``packages`` of PyPI, or files."""
        self.run("python3.11", "/root/pip.whl/pip", "install", "--quiet", *packages)
