#!/usr/bin/env python3
"""Checks that wheels load where TensorFlow's do, and that their binaries are hardened.

    tools/dist/check_wheel.py WHEEL...

Looks into every executable and shared object of a wheel, and of the jar in it. It checks which
symbols of which glibc it needs, which libraries, and what the compiler and the linker did against
attacks on memory. Prints what is wrong and fails if there is any of it.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from targets import GLIBC, TARGETS

sys.path.append(str(Path(__file__).resolve().parent.parent / "checks"))
from check_symbols import foreign_libraries, leaked_symbols
from hardening import readelf, soft_spots, unchecked

#: TensorFlow's wheel alone is two hundred times as much; ours shall be no burden.
LIMIT_BYTES = 40 * 1024 * 1024
#: The binaries of each wheel, and what their names end with. {machine} is the wheel's processor.
#: Its jar may have libraries for others, too.
EXPECTED = {
    "the extension": r": tfos/_native\.[\w.-]+\.so",
    "the ops": r": tfos/_tensorflow_ops\.so",
    "the file system": r": tfos/_hadoop_files\.so",
    "the executable": r": tfos/bin/tfos",
    "the jar's library for {machine}": r"\.jar: tfos/native/linux-{machine}/libtfos_jvm\.so",
}
ELF = b"\x7fELF"


def binaries(archive: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Unpacks each ELF file of ``archive``, and of the jars in it, into ``folder``: its name in
    the archive, and its path."""
    with zipfile.ZipFile(archive) as content:
        for name in content.namelist():
            data = content.read(name)
            path = folder / name
            if data.startswith(ELF):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                yield f"{archive.name}: {name}", path
            elif name.endswith(".jar"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                yield from binaries(path, folder / f"{name}.content")


def too_new(path: Path) -> list[str]:
    """The versions of glibc's symbols that ``path`` needs and the oldest system lacks."""
    limit = [int(part) for part in GLIBC.split(".")]
    versions = set(re.findall(r"GLIBC_(\d+(?:\.\d+)+)", readelf("--version-info", path)))
    found = ([int(part) for part in version.split(".")] for version in versions)
    return [".".join(map(str, version)) for version in sorted(found) if version > limit]


def missing(wheel: Path, names: list[str]) -> list[str]:
    """Which binaries are not among ``names``, as :func:`binaries` gives them."""
    machine = next((machine for machine in TARGETS if wheel.stem.endswith(f"_{machine}")), None)
    if machine is None:
        return [f"the processor in its name (one of {', '.join(TARGETS)})"]
    return [
        what.replace("{machine}", machine)
        for what, pattern in EXPECTED.items()
        if not any(re.search(f"{pattern.replace('{machine}', machine)}$", name) for name in names)
    ]


def problems(wheel: Path) -> list[str]:
    found = []
    if wheel.stat().st_size > LIMIT_BYTES:
        found.append(f"{wheel.name}: has {wheel.stat().st_size} bytes, and may have {LIMIT_BYTES}")
    names = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in binaries(wheel, Path(folder)):
            names.append(name)
            found += [f"{name}: needs glibc {version}" for version in too_new(path)]
            found += [f"{name}: needs {library}" for library in foreign_libraries(path)]
            found += [f"{name}: lacks {what}" for what in soft_spots(path) + unchecked(path)]
            if path.suffix == ".so":
                found += [f"{name}: shows the symbol {symbol}" for symbol in leaked_symbols(path)]
    return found + [f"{wheel.name}: lacks {what}" for what in missing(wheel, names)]


def main(paths: list[str]) -> int:
    if not paths:
        sys.exit(__doc__)
    found = [problem for path in paths for problem in problems(Path(path))]
    print("\n".join(found) or f"{len(paths)} wheels load from glibc {GLIBC} on and are hardened")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
