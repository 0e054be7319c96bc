"""What tools download has its hash in this repository."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import combinations
import hadoop_daemons
from daemons import DaemonError
from support.places import ROOT

LOCKED = ROOT / "tools" / "locked"
#: What is locked, of which requirements; TensorFlow's variant is named by the tool.
MADE_OF = {
    "environment-tensorflow-cpu": ["tools/requirements.txt", "tools/requirements-run.txt"],
    "environment-tensorflow": ["tools/requirements.txt", "tools/requirements-run.txt"],
    "component-tensorflow-cpu": ["tools/requirements-run.txt"],
    "component-tensorflow": ["tools/requirements-run.txt"],
    "lint": ["tools/checks/requirements-lint.txt"],
    "release": ["tools/dist/requirements.txt"],
    "backends": ["tools/requirements-backends.txt"],
}


def entries_of(name):
    """{package: (version, hashes)} of a locked file."""
    text = (LOCKED / f"{name}.txt").read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        requirement, *hashes = line.split(" --hash=")
        match = re.fullmatch(r"([\w.-]+)(?:\[.*\])?==(\S+)(?: ; .*)?", requirement.strip())
        assert match, requirement
        found[canonicalize_name(match.group(1))] = (match.group(2), [h.strip() for h in hashes])
    return found


def wanted_by(name):
    for file in MADE_OF[name]:
        for line in (ROOT / file).read_text().splitlines():
            text = line.partition("#")[0].strip()
            if text and not text.startswith("-"):
                yield Requirement(text)
    if name.startswith(("environment-", "component-")):
        yield Requirement(f"{name.partition('-')[2]}==2.21.*")


@pytest.mark.parametrize("name", sorted(path.stem for path in LOCKED.glob("*.txt")))
def test_each_package_has_one_version_and_hashes(name):
    entries = entries_of(name)
    assert entries
    for package, (version, hashes) in entries.items():
        assert "*" not in version, package
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in hashes), (
            package
        )


@pytest.mark.parametrize("name", MADE_OF)
def test_what_is_required_is_locked(name):
    entries = entries_of(name)
    for requirement in wanted_by(name):
        version, _ = entries.get(canonicalize_name(requirement.name), ("", []))
        assert version, f"run tools/locked/lock.sh: {name}.txt lacks {requirement}"
        assert requirement.specifier.contains(version), (
            f"run tools/locked/lock.sh: {name}.txt has {version} for {requirement}"
        )


def test_each_spark_of_the_matrix_is_locked():
    (own,) = [
        line
        for line in (ROOT / "tools/requirements-run.txt").read_text().splitlines()
        if line.startswith("pyspark==")
    ]
    locked = {path.stem.partition("-")[2] for path in LOCKED.glob("pyspark-*.txt")}
    assert locked | {own.partition("==")[2]} == set(combinations.SPARKS)


@pytest.mark.parametrize(
    "folder", ["src/control/page/uplot", "docs/assets/iframe-worker"], ids=os.path.basename
)
def test_scripts_of_pages_are_what_npm_has(folder):
    """tools/dist/sources.py and mkdocs.yml name the packages that these files are from."""
    folder = ROOT / folder
    lines = (LOCKED / f"{folder.name}.sha256").read_text().split()
    hashes = dict(zip(lines[1::2], lines[::2], strict=True))
    assert {path.name for path in folder.iterdir()} == set(hashes)
    for name, wanted in hashes.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted, name


def test_a_jar_with_another_hash_is_refused(tmp_path):
    """Maven is a script that fetches something else."""
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        "#!/bin/sh\n"
        "for word; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done\n"
        'mkdir -p "$to"; echo other > "$to/slf4j-simple-1.7.36.jar"\n'
    )
    maven.chmod(0o755)
    directory = tmp_path / "jars"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([str(maven.parent), os.environ["PATH"]]))
        with pytest.raises(DaemonError, match="slf4j-simple-1.7.36.jar has the SHA-256"):
            hadoop_daemons.fetch_jars(directory)
    assert not directory.exists()


def test_files_that_are_not_mnist_are_refused(tmp_path):
    """The place is a folder of gzip files that are something else."""
    served = tmp_path / "served"
    served.mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (served / f"{name}-ubyte").write_bytes(b"not MNIST")
        subprocess.run(["gzip", served / f"{name}-ubyte"], check=True)
    component = tmp_path / "component"
    (component / "conf").mkdir(parents=True)
    shutil.copy(ROOT / "examples/emr/mnist_download.sh", component)
    (component / "conf/functions.sh").write_text("MNIST=\n")
    done = subprocess.run(
        ["sh", component / "mnist_download.sh"],
        env={**os.environ, "MNIST_URL": served.as_uri(), "LOCAL_DIR": str(tmp_path / "local")},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "has other files than MNIST's" in done.stderr
    assert not (tmp_path / "local").exists()
