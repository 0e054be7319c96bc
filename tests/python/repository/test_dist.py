"""What checks and describes a release, without building one."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import zipfile

import pytest

import bill_of_materials
import check_symbols
import check_wheel
import hardening
import make_dist
import sources

HARD = [
    "-O2",
    "-fstack-protector-all",
    "-fPIE",
    "-pie",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,-z,noexecstack",
]
PROGRAM = '#include <stdio.h>\nint main(int count, char** words) { char line[64]; return sprintf(line, "%s", words[count - 1]); }\n'


def build(folder, *flags, program=PROGRAM):
    source = folder / "program.c"
    source.write_text(program)
    path = folder / "program"
    subprocess.run(["gcc", *flags, "-o", path, source], check=True, capture_output=True)
    return path


def test_a_hardened_program_has_no_soft_spot(tmp_path):
    assert check_wheel.soft_spots(build(tmp_path, *HARD)) == []


@pytest.mark.parametrize(
    ("without", "instead", "missing"),
    [
        ("-Wl,-z,noexecstack", "-Wl,-z,execstack", "a stack that is not executable"),
        ("-Wl,-z,relro", "-Wl,-z,norelro", "relocations that are read-only (RELRO)"),
        ("-Wl,-z,now", "-Wl,-z,lazy", "symbols that are bound at once (BIND_NOW)"),
        ("-fstack-protector-all", "-fno-stack-protector", "canaries on the stack"),
        ("-pie", "-no-pie", "addresses that move (PIE)"),
    ],
)
def test_each_missing_defence_is_named(tmp_path, without, instead, missing):
    path = build(tmp_path, *(instead if flag == without else flag for flag in HARD))
    assert check_wheel.soft_spots(path) == [missing]


@pytest.mark.parametrize("checked", [True, False])
def test_checks_of_indexes_are_found(tmp_path, checked):
    source = tmp_path / "program.cc"
    source.write_text(
        "#include <vector>\n"
        "int main(int count, char**) { std::vector<int> some(3); return some[count]; }\n"
    )
    define = ["-D_GLIBCXX_ASSERTIONS"] if checked else []
    path = tmp_path / "program"
    subprocess.run(["g++", "-O2", "-static-libstdc++", *define, "-o", path, source], check=True)
    assert hardening.checks_indexes(path) == checked
    # Built without, as tools/checks/check_symbols.py says of what tests run.
    failures = check_symbols.soft_spots_of_build(path)
    assert ("checks of indexes (_GLIBCXX_ASSERTIONS)" in failures) != checked


def test_a_symbol_of_a_new_glibc_is_found(tmp_path):
    program = "#include <stdlib.h>\nint main(void) { return arc4random() % 2; }\n"
    assert check_wheel.too_new(build(tmp_path, program=program))[-1] == "2.36"


def test_binaries_in_jars_are_looked_at(tmp_path):
    path = build(tmp_path, "-no-pie")
    jar = tmp_path / "library.jar"
    with zipfile.ZipFile(jar, "w") as content:
        content.write(path, "tfos/native/libtfos_jvm.so")
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        content.write(jar, "tfos/jars/library.jar")
    found = check_wheel.problems(wheel)
    assert any("libtfos_jvm.so: lacks addresses that move (PIE)" in problem for problem in found)
    assert any("has 1 binaries only" in problem for problem in found)


def test_a_download_with_another_hash_is_refused(tmp_path):
    archive = tmp_path / "served.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("read.me", "good")
    good = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = sources.Source("thing", "1", archive.as_uri(), good, "MIT")
    assert (source.fetch(tmp_path / "there") / "read.me").read_text() == "good"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("read.me", "evil")
    with pytest.raises(RuntimeError, match=f"and not {good}"):
        source.fetch(tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_bill_names_every_library_once():
    bill = bill_of_materials.sbom("1.2.3")
    names = [component["name"] for component in bill["components"]]
    assert bill["metadata"]["component"]["version"] == "1.2.3"
    assert len(names) == len(set(names))
    for wanted in ("openssl", "zlib", "Boost", "fmt", "spdlog", "nanobind", "libstdc++"):
        assert wanted in names
    assert all(component["licenses"] and component["version"] for component in bill["components"])
    json.dumps(bill)


def test_jars_of_all_processors_become_one(tmp_path):
    wheels = []
    for machine in ("x86_64", "aarch64"):
        jar = tmp_path / f"{machine}.jar"
        with zipfile.ZipFile(jar, "w") as content:
            content.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
            content.writestr(f"tfos/native/linux-{machine}/libtfos_jvm.so", machine)
        wheels.append(tmp_path / f"{machine}.whl")
        with zipfile.ZipFile(wheels[-1], "w") as content:
            content.write(jar, "tfos/jars/tfos_2.13-1.jar")
    merged = make_dist.merge_jars(wheels, tmp_path)
    again = merged.read_bytes()
    with zipfile.ZipFile(merged) as content:
        assert content.namelist() == [
            "META-INF/MANIFEST.MF",
            "tfos/native/linux-x86_64/libtfos_jvm.so",
            "tfos/native/linux-aarch64/libtfos_jvm.so",
        ]
    assert make_dist.merge_jars(wheels, tmp_path).read_bytes() == again


def test_what_makes_a_release_is_pinned():
    lines = (make_dist.ROOT / "tools/dist/requirements.txt").read_text().splitlines()
    assert all(re.fullmatch(r"#.*|[\w-]+==[\d.]+", line) for line in lines)
