"""Makes a folder with an old C library to build against, and compilers that use it.

GCC of this machine compiles, so a release has the code that the tests test. The C library's headers
and its lists of symbols come from Zig, which has them for each version of glibc and each processor
(https://ziglang.org): a few files, instead of an old distribution.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from targets import GLIBC, ROOT, Target

HERE = Path(__file__).resolve().parent
#: glibc's libraries, and the names by which the linker looks for them.
LIBRARIES = {
    "libm.so": "libm.so.6",
    "libpthread.so": "libpthread.so.0",
    "libdl.so": "libdl.so.2",
    "librt.so": "librt.so.1",
    "libutil.so": "libutil.so.1",
    "libresolv.so": "libresolv.so.2",
}
WRAPPER = """\
#!/bin/sh
# The compiler {compiler}, with the C library of {folder}.
exec {compiler} --sysroot={folder} -B{lib}/ -L{lib} -isystem {compat} {flags} "$@"
"""


def run(*command: str | Path, **options) -> subprocess.CompletedProcess:
    """Runs ``command``; what it printed is part of the error if it fails."""
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if result.returncode:
        raise RuntimeError(
            f"{shlex.join(map(str, command))} failed with {result.returncode}:\n"
            f"{result.stdout[-4000:]}{result.stderr[-8000:]}"
        )
    return result


def gcc(target: Target, language: str) -> str:
    """The name of Debian's compiler for ``target``: the host's own, or a cross compiler."""
    name = {"c": "gcc-12", "c++": "g++-12"}[language]
    return name if target.machine == os.uname().machine else f"{target.triple}-{name}"


class Sysroot:
    """``folder`` with the C library for ``target``, and ``cc`` and ``cxx``, which build with it."""

    def __init__(self, target: Target, folder: Path):
        self.target = target
        self.folder = folder
        self.lib = folder / "usr" / "lib" / target.triple
        self.cc = folder / "bin" / "cc"
        self.cxx = folder / "bin" / "c++"
        #: To link into every program and shared object.
        self.compatibility = folder / "compatibility.o"

    def make(self, python: Path) -> None:
        """Makes it, if it isn't there. ``python`` has the package ``ziglang``."""
        done = self.folder / "done"
        if done.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lib.mkdir(parents=True)
        self._copy_libraries(python)
        self._copy_headers(python)
        self._write_compilers()
        self._build_compatibility()
        done.touch()

    def _copy_libraries(self, python: Path) -> None:
        """Zig makes them when it links a program, and names them in the command of its linker."""
        cache = self.folder / "zig"
        cache.mkdir()
        program = cache / "empty.c"
        program.write_text("int main(void) { return 0; }\n")
        environment = os.environ | {
            "ZIG_GLOBAL_CACHE_DIR": str(cache),
            "ZIG_LOCAL_CACHE_DIR": str(cache),
        }
        for flags in ([], ["-fPIE", "-pie"]):
            result = run(
                python,
                "-m",
                "ziglang",
                "cc",
                "-target",
                f"{self.target.triple}.{GLIBC}",
                "-v",
                *flags,
                program,
                "-o",
                cache / "empty",
                "-lm",
                "-lpthread",
                "-ldl",
                "-lrt",
                "-lutil",
                "-lresolv",
                env=environment,
                cwd=cache,
            )
            linker = [line for line in result.stderr.splitlines() if line.startswith("ld.lld")]
            for word in shlex.split(linker[-1]):
                name = Path(word).name
                if name.endswith(("crt1.o", "libc_nonshared.a")) or ".so." in name:
                    file = cache / word
                    if file.is_file():
                        shutil.copy(file, self.lib / name)
        shutil.rmtree(cache)
        for name, library in LIBRARIES.items():
            (self.lib / name).symlink_to(library)
        (self.lib / "libc.so").write_text(
            "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )\n"
        )
        # They are the same in all versions of glibc, and Zig does without.
        for name in ("crti.o", "crtn.o"):
            shutil.copy(
                run(gcc(self.target, "c"), f"-print-file-name={name}").stdout.strip(),
                self.lib / name,
            )

    def _copy_headers(self, python: Path) -> None:
        package = run(python, "-c", "import ziglang; print(ziglang.__path__[0])").stdout.strip()
        family = self.target.zig_headers
        # The first folder that has a file wins.
        for name in (
            f"{family}-linux-gnu",
            "generic-glibc",
            f"{family}-linux-any",
            "any-linux-any",
        ):
            folder = Path(package, "lib", "libc", "include", name)
            for file in folder.rglob("*"):
                there = self.folder / "usr" / "include" / file.relative_to(folder)
                if file.is_file() and not there.exists():
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, there)
        # It came with glibc 2.32, and fails with older ones. libstdc++ uses it if it is there.
        (self.folder / "usr" / "include" / "sys" / "single_threaded.h").unlink()

    def _write_compilers(self) -> None:
        flags = [
            # What Zig's headers go by.
            f"-D__GLIBC_MINOR__={GLIBC.split('.')[1]}",
            # All our programs have threads.
            "-DGTHREAD_USE_WEAK=0",
            # GCC's own libgcc_s was made for this machine's C library; the user's has its own.
            "-Wl,--allow-shlib-undefined",
            # Paths of the machine that built it say nothing to users, and differ.
            f"-ffile-prefix-map={ROOT}=.",
        ]
        (self.folder / "bin").mkdir()
        for language, path in (("c", self.cc), ("c++", self.cxx)):
            path.write_text(
                WRAPPER.format(
                    compiler=gcc(self.target, language),
                    folder=self.folder,
                    lib=self.lib,
                    compat=HERE / "compat" if language == "c++" else self.folder / "usr/include",
                    flags=shlex.join(flags),
                )
            )
            path.chmod(0o755)

    def _build_compatibility(self) -> None:
        """An object with what libstdc++ of this machine takes of a newer C library."""
        source = HERE / "compat" / "single_threaded.c"
        run(self.cc, "-O2", "-fPIC", "-c", source, "-o", self.compatibility)
