"""What checks and describes a release, without building one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import zipfile

import pytest

import bill_of_materials
import check_reproducible
import check_wheel
import hardening
import make_dist
import sources
import try_python

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


def build(folder, *flags, program=PROGRAM, libraries=()):
    source = folder / "program.c"
    source.write_text(program)
    path = folder / "program"
    command = ["gcc", *flags, "-o", path, source, *libraries]
    subprocess.run(command, check=True, capture_output=True)
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
    assert ("checks of indexes (_GLIBCXX_ASSERTIONS)" in hardening.unchecked(path)) != checked


@pytest.mark.parametrize("checked", [True, False])
def test_checks_of_buffers_are_found(tmp_path, checked):
    program = (
        "#include <openssl/ssl.h>\n#include <stdio.h>\n"
        "int main(int count, char** words) {\n"
        "  char line[64];\n"
        '  return snprintf(line, count, "%s", words[0]) + SSL_do_handshake(SSL_new(NULL));\n'
        "}\n"
    )
    own = "-D_FORTIFY_SOURCE=2" if checked else "-U_FORTIFY_SOURCE"
    # It has OpenSSL in it, as tfos does. Debian always builds that with these checks.
    path = build(tmp_path, "-O2", own, program=program, libraries=("-l:libssl.a", "-l:libcrypto.a"))
    assert "__memcpy_chk" in hardening.readelf("--dyn-syms", path)
    missing = "checks of the C library's buffers (_FORTIFY_SOURCE)" in hardening.unchecked(path)
    assert missing != checked


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
    assert any("lacks the processor in its name" in problem for problem in found)


@pytest.mark.parametrize(
    ("tag", "loads"),
    [
        ("manylinux_2_27_x86_64", True),
        ("manylinux_2_5_x86_64", True),
        ("manylinux_2_28_x86_64", False),
        ("manylinux_2_27_aarch64", False),
        ("linux_x86_64", False),  # It needs a library that hosts may not have.
    ],
)
def test_what_the_auditor_finds_is_compared_with_the_oldest_glibc(tag, loads):
    assert make_dist.loads_from(tag, "x86_64") == loads


BINARIES = {
    "tfos/_native.abi3.so": "the extension",
    "tfos/_tensorflow_ops.so": "the ops",
    "tfos/_hadoop_files.so": "the file system",
    "tfos/bin/tfos": "the executable",
    "tfos/native/linux-aarch64/libtfos_jvm.so": "the jar's library for aarch64",
}


@pytest.mark.parametrize("left_out", [None, *BINARIES])
def test_a_binary_that_a_wheel_lacks_is_named(tmp_path, left_out):
    path = build(tmp_path, *HARD)
    jar, wheel = tmp_path / "t.jar", tmp_path / "tfos-1-cp312-abi3-manylinux_2_27_aarch64.whl"
    with zipfile.ZipFile(jar, "w") as of_jar, zipfile.ZipFile(wheel, "w") as of_wheel:
        # The jar of a release has the libraries of all processors.
        of_jar.write(path, "tfos/native/linux-x86_64/libtfos_jvm.so")
        for name in BINARIES.keys() - {left_out}:
            (of_jar if "/native/" in name else of_wheel).write(path, name)
        of_jar.close()
        of_wheel.write(jar, "tfos/jars/t.jar")
    missing = [problem for problem in check_wheel.problems(wheel) if "lacks the" in problem]
    assert missing == [f"{wheel.name}: lacks {BINARIES[name]}" for name in [left_out] if name]


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
    for wanted in ("openssl", "uPlot", "zlib", "Boost", "fmt", "spdlog", "nanobind", "libstdc++"):
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


def release(folder, *, program=b"same", time=(2020, 1, 1, 0, 0, 0), mode=0o644, notes="notes"):
    """A folder with a wheel, a source archive and a text."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "tfos.whl", "w") as wheel:
        info = zipfile.ZipInfo("tfos/bin/tfos", time)
        info.external_attr = mode << 16
        wheel.writestr(info, program)
    with tarfile.open(folder / "tfos.tar.gz", "w") as sources:
        member = tarfile.TarInfo("tfos/README.md")
        member.size, member.mode = 4, mode
        sources.addfile(member, io.BytesIO(b"read"))
    (folder / "licences.txt").write_text(notes)
    return folder


def test_two_releases_that_are_the_same_have_no_differences(tmp_path):
    first, second = release(tmp_path / "first"), release(tmp_path / "second")
    assert check_reproducible.differences(first, second) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"program": b"other"}, r"tfos.whl: tfos/bin/tfos: .*"),
        ({"time": (2021, 1, 1, 0, 0, 0)}, r"tfos.whl: tfos/bin/tfos: \(2020, .* then \(2021, .*"),
        ({"mode": 0o600}, r"tfos.tar.gz: tfos/README.md: 0 mode 644 .* then 0 mode 600 .*"),
        ({"notes": "others"}, r"licences.txt: 5 bytes and 6 bytes differ"),
    ],
)
def test_what_differs_is_named_down_to_the_member(tmp_path, change, expected):
    first, second = release(tmp_path / "first"), release(tmp_path / "second", **change)
    found = check_reproducible.differences(first, second)
    assert any(re.fullmatch(expected, difference) for difference in found), found


def test_a_file_of_one_release_only_is_named(tmp_path):
    first, second = release(tmp_path / "first"), release(tmp_path / "second")
    (second / "licences.txt").unlink()
    assert check_reproducible.differences(first, second) == [f"licences.txt: is not in {second}"]


def test_members_in_another_order_are_a_difference(tmp_path):
    folders = []
    for name, order in (("first", "ab"), ("second", "ba")):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        with zipfile.ZipFile(folders[-1] / "tfos.whl", "w") as wheel:
            for member in order:
                wheel.writestr(zipfile.ZipInfo(member), member)
    assert "in another order" in check_reproducible.differences(*folders)[-1]


def test_each_python_gets_the_wheel_that_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(make_dist, "OUT", tmp_path)
    machine = os.uname().machine
    names = [f"tfos-1-{tag}-manylinux_2_27_{machine}.whl" for tag in ("cp311-cp311", "cp312-abi3")]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "tfos-1-cp312-abi3-manylinux_2_27_other.whl").touch()
    assert try_python.fitting((3, 11)).name == names[0]
    assert try_python.fitting((3, 12)).name == try_python.fitting((3, 13)).name == names[1]
    (tmp_path / names[1]).unlink()
    with pytest.raises(FileNotFoundError, match="no wheel cp312-abi3"):
        try_python.fitting((3, 14))
