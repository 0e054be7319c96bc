#!/usr/bin/env python3
"""Takes a wheel of dist/ to an old Debian that has never seen the source, and runs it there.

    tools/dist/try_wheel.py [--machine x86_64] [--only install,native,python,tensorflow]

`make test-dist` runs it. Needs root, debootstrap and, for another processor, QEMU's user emulation.
The Debian is 11, with glibc 2.31, Java and no compiler; CPython comes from Maven Central. In turn:

- install: the wheel is installed where there are Python and Java only, in a time that is printed,
  and `tfos doctor` looks at the host;
- native: the C++ tests run, built for the release's C library;
- python: the tests of feed and codec run, with PySpark;
- tensorflow: TensorFlow loads the ops of tfos and sums tensors up by them, and the quickstart
  trains two nodes. Under emulation it runs only where --only names it: importing TensorFlow takes
  minutes there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

import make_dist
import native_tests
import old_debian
from sysroot import run
from targets import ROOT, TARGETS, Target

SPARK = "pyspark[sql]==4.1.4"
TENSORFLOW = "2.21.0"
OF_TESTS = ("pytest", "pytest-timeout", "psutil")
TESTS = ("tests/python/feed/native", "tests/python/feed/test_row_codec.py")
#: Ops of tfos in TensorFlow, and its BoringSSL beside our OpenSSL.
TESTS_OF_TENSORFLOW = ("tests/python/files/test_tls.py",)
#: What tests and examples consist of in the repository.
SOURCES = ("tests", "tools", "examples", "pyproject.toml")
STEPS = ("install", "native", "python", "tensorflow")


def install(host: old_debian.Host, wheel: Path) -> None:
    begin = time.monotonic()
    host.install(f"/root/{wheel.name}")
    seconds = time.monotonic() - begin
    print(
        f"Installing {wheel.name} took {seconds:.0f} s; the load is {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores",
        flush=True,
    )
    host.run("tfos", "doctor")


def run_native_tests(host: old_debian.Host, target: Target) -> None:
    folder = host.home / "native"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for program in native_tests.build(target, old_debian.PYTHON):
        shutil.copy(program, folder)
    host.run(
        "sh",
        "-c",
        "cd /root/native && for test in *_test; do "
        "echo $test; ./$test --gtest_brief=1 || exit 1; done",
    )


def run_python_tests(host: old_debian.Host, tests: tuple[str, ...]) -> None:
    host.run("sh", "-c", f"cd /root && python3.11 -m pytest -q --timeout 1000 {' '.join(tests)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=os.uname().machine, choices=TARGETS)
    parser.add_argument("--only", help=f"steps, of {','.join(STEPS)}")
    options = parser.parse_args()
    target = TARGETS[options.machine]
    emulated = target.machine != os.uname().machine
    steps = options.only.split(",") if options.only else list(STEPS[:-1] if emulated else STEPS)
    if unknown := set(steps) - set(STEPS):
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(STEPS)}")
    found = list(make_dist.OUT.glob(f"*-cp311-*{target.machine}.whl"))
    if not found:
        print(
            f"dist/ has no wheel for CPython {old_debian.PYTHON} on {target.machine}: run "
            "`make dist`",
            file=sys.stderr,
        )
        return 1
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("This needs root, and Debian's package debootstrap", file=sys.stderr)
        return 1
    (wheel,) = found
    old_debian.enable_emulation(target)
    host = old_debian.Host(old_debian.make_root(target), target)
    shutil.copy(wheel, host.home)
    tools, _ = make_dist.make_tools()
    run(tools, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", host.home, "pip")
    next(host.home.glob("pip-*.whl")).replace(host.home / "pip.whl")
    for source in SOURCES:
        run("cp", "-r", ROOT / source, host.home)
    install(host, wheel)
    if "native" in steps:
        run_native_tests(host, target)
    if "python" in steps or "tensorflow" in steps:
        host.install(SPARK, *OF_TESTS)
    if "python" in steps:
        run_python_tests(host, TESTS)
    if "tensorflow" in steps:
        # The variant without CUDA is for x86-64 alone.
        host.install(f"tensorflow{'' if emulated else '-cpu'}=={TENSORFLOW}")
        run_python_tests(host, TESTS_OF_TENSORFLOW)
        host.run("tfos", "doctor")
        host.run("python3.11", "/root/examples/quickstart.py")
    print(f"{wheel.name} runs on Debian 11: {', '.join(steps)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
