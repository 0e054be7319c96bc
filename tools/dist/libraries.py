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
#: The libraries of GoogleTest: the folder and the source of each, and what it links.
GOOGLETEST_SOURCES = Path("/usr/src/googletest")
GOOGLETEST = {
    "gtest": ("googletest", "gtest-all.cc", "Threads::Threads"),
    "gtest_main": ("googletest", "gtest_main.cc", "GTest::gtest"),
    "gmock": ("googlemock", "gmock-all.cc", "GTest::gtest"),
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
        run(
            sysroot.cc,
            *flags.split(),
            "-DHAVE_UNISTD_H",
            "-c",
            file,
            "-o",
            objects / f"{file.stem}.o",
        )
    run("ar", "crD", prefix / "lib" / "libz.a", *sorted(objects.glob("*.o")))
    for name in ("zlib.h", "zconf.h"):
        shutil.copy(source / name, prefix / "include")


def _build_openssl(sysroot: Sysroot, source: Path, prefix: Path, flags: str) -> None:
    source = next(source.glob("*/openssl"))
    build = prefix / "openssl"
    build.mkdir()
    print(f"Building OpenSSL for {sysroot.target.machine} (minutes)", flush=True)
    # OpenSSL keeps its compiler's name and options, its prefix, and the date, and shows them. So
    # none of them names a folder of this machine, and the date is always the same.
    environment = os.environ | {
        "PATH": f"{sysroot.cc.parent}:{os.environ['PATH']}",
        "CC": sysroot.cc.name,
        "AR": "ar",
        "RANLIB": "ranlib",
        "SOURCE_DATE_EPOCH": "0",
    }
    # Its directory is where Linux distributions have certificates; tfos reads no openssl.cnf.
    run(
        "perl",
        source / "Configure",
        sysroot.target.openssl,
        "no-shared",
        "no-tests",
        "no-apps",
        "no-docs",
        "no-module",
        "no-legacy",
        "no-engine",
        "no-atexit",
        "--prefix=/usr/local",
        "--libdir=lib",
        "--openssldir=/etc/ssl",
        *flags.split(),
        cwd=build,
        env=environment,
    )
    run("make", f"-j{os.cpu_count()}", "build_libs", cwd=build, env=environment)
    installed = build / "installed"
    run("make", "install_dev", f"DESTDIR={installed}", cwd=build, env=environment)
    shutil.copytree(installed / "usr" / "local", prefix, dirs_exist_ok=True)


def _point_to_headers(prefix: Path) -> None:
    """/usr/include itself would bring this machine's C library with it."""
    include = prefix / "headers"
    include.mkdir()
    for name, (folder, target, definitions, version) in HEADERS.items():
        (include / folder).symlink_to(Path("/usr/include", folder))
        config = prefix / "cmake" / name
        config.mkdir()
        (config / f"{name}Config.cmake").write_text(
            CONFIG.format(name=name, target=target, include=include, definitions=definitions)
        )
        (config / f"{name}ConfigVersion.cmake").write_text(VERSION.format(version=version))


def build_googletest(sysroot: Sysroot, prefix: Path) -> None:
    """Builds this machine's GoogleTest for ``sysroot`` into ``prefix``, unless it is there: for the
    C++ tests, not for a release."""
    config = prefix / "cmake" / "GTest" / "GTestConfig.cmake"
    if config.exists():
        return
    print(f"Building GoogleTest for {sysroot.target.machine}", flush=True)
    lines = ["find_package(Threads REQUIRED)\n"]
    for name, (folder, source, links) in GOOGLETEST.items():
        library = prefix / "lib" / f"lib{name}.a"
        built = library.with_suffix(".o")
        home = GOOGLETEST_SOURCES / folder
        run(
            sysroot.cxx,
            "-std=c++17",
            "-O2",
            "-fPIC",
            "-I",
            home,
            "-c",
            home / "src" / source,
            "-o",
            built,
        )
        run("ar", "crD", library, built)
        lines.append(
            f"add_library(GTest::{name} STATIC IMPORTED)\n"
            f'set_target_properties(GTest::{name} PROPERTIES IMPORTED_LOCATION "{library}"\n'
            f'  INTERFACE_INCLUDE_DIRECTORIES "{prefix / "headers"}"\n'
            f'  INTERFACE_LINK_LIBRARIES "{links}")\n'
        )
    for folder in ("gtest", "gmock"):
        header = prefix / "headers" / folder
        if not header.exists():
            header.symlink_to(Path("/usr/include", folder))
    config.parent.mkdir(exist_ok=True)
    config.write_text("".join(lines))
