"""Builds the libraries that tfos links statically, and shows CMake where headers lie."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sources import OPENSSL, ZLIB
from sysroot import Sysroot, run

#: Libraries of headers alone, from this machine's packages: what lies below /usr/include, and the
#: targets and definitions by which tfos knows them.
HEADERS = {
    "Boost": ("boost", "Boost::headers", "", "1.81.0"),
    "CLI11": ("CLI", "CLI11::CLI11", "", "2.1.2"),
    "fmt": ("fmt", "fmt::fmt-header-only", "FMT_HEADER_ONLY=1", "9.1.0"),
    "nlohmann_json": ("nlohmann", "nlohmann_json::nlohmann_json", "", "3.11.2"),
    "spdlog": ("spdlog", "spdlog::spdlog_header_only", "SPDLOG_FMT_EXTERNAL", "1.10.0"),
}
CONFIG = """\
add_library({target} INTERFACE IMPORTED)
target_include_directories({target} SYSTEM INTERFACE "{include}")
target_compile_definitions({target} INTERFACE {definitions})
set({name}_FOUND TRUE)
"""
VERSION = """\
set(PACKAGE_VERSION {version})
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


def build(sysroot: Sysroot, downloads: Path, prefix: Path, flags: str) -> None:
    """Builds OpenSSL and zlib for ``sysroot`` into ``prefix``, unless it is done."""
    done = prefix / "done"
    wanted = f"{OPENSSL.sha256} {ZLIB.sha256} {flags}"
    if done.exists() and done.read_text() == wanted:
        return
    shutil.rmtree(prefix, ignore_errors=True)
    for folder in ("lib", "include", "cmake"):
        (prefix / folder).mkdir(parents=True)
    _build_zlib(sysroot, ZLIB.fetch(downloads), prefix, flags)
    _build_openssl(sysroot, OPENSSL.fetch(downloads), prefix, flags)
    _point_to_headers(prefix)
    done.write_text(wanted)


def _build_zlib(sysroot: Sysroot, source: Path, prefix: Path, flags: str) -> None:
    source = next(source.glob("*/src/zlib"))
    objects = prefix / "zlib"
    objects.mkdir()
    print(f"Building zlib for {sysroot.target.machine}", flush=True)
    for file in sorted(source.glob("*.c")):
        # It asks for unistd.h by this name.
        run(sysroot.cc, *flags.split(), "-DHAVE_UNISTD_H", "-c", file, "-o",
            objects / f"{file.stem}.o")
    run("ar", "crD", prefix / "lib" / "libz.a", *sorted(objects.glob("*.o")))
    for name in ("zlib.h", "zconf.h"):
        shutil.copy(source / name, prefix / "include")


def _build_openssl(sysroot: Sysroot, source: Path, prefix: Path, flags: str) -> None:
    source = next(source.glob("*/openssl"))
    build = prefix / "openssl"
    build.mkdir()
    print(f"Building OpenSSL for {sysroot.target.machine} (minutes)", flush=True)
    # Its directory is where Linux distributions have certificates; tfos reads no openssl.cnf.
    run("perl", source / "Configure", sysroot.target.openssl, "no-shared", "no-tests", "no-apps",
        "no-docs", "no-module", "no-legacy", "no-engine", "no-atexit", f"--prefix={prefix}",
        "--libdir=lib", "--openssldir=/etc/ssl", *flags.split(), cwd=build,
        env=os.environ | {"CC": str(sysroot.cc), "AR": "ar", "RANLIB": "ranlib"})
    run("make", f"-j{os.cpu_count()}", "build_libs", cwd=build)
    run("make", "install_dev", cwd=build)


def _point_to_headers(prefix: Path) -> None:
    """/usr/include itself would bring this machine's C library with it."""
    include = prefix / "headers"
    include.mkdir()
    for name, (folder, target, definitions, version) in HEADERS.items():
        (include / folder).symlink_to(Path("/usr/include", folder))
        config = prefix / "cmake" / name
        config.mkdir()
        (config / f"{name}Config.cmake").write_text(CONFIG.format(
            name=name, target=target, include=include, definitions=definitions))
        (config / f"{name}ConfigVersion.cmake").write_text(VERSION.format(version=version))


def point_to_googletest(prefix: Path) -> None:
    """For the C++ tests: this machine's GoogleTest, which needs nothing newer than the sysroot."""
    config = prefix / "cmake" / "GTest"
    config.mkdir(exist_ok=True)
    include = prefix / "headers"
    lines = ["find_package(Threads REQUIRED)\n"]
    for folder in ("gtest", "gmock"):
        if not (include / folder).exists():
            (include / folder).symlink_to(Path("/usr/include", folder))
    for name in ("gtest", "gtest_main", "gmock"):
        path = run("g++-12", f"-print-file-name=lib{name}.a").stdout.strip()
        lines.append(
            f"add_library(GTest::{name} STATIC IMPORTED)\n"
            f'set_target_properties(GTest::{name} PROPERTIES IMPORTED_LOCATION "{path}"\n'
            f'  INTERFACE_INCLUDE_DIRECTORIES "{include}"\n'
            f'  INTERFACE_LINK_LIBRARIES "{"Threads::Threads" if name == "gtest" else "GTest::gtest"}")\n'
        )
    (config / "GTestConfig.cmake").write_text("".join(lines))
