"""What ``tfos`` itself answers, before a subcommand begins."""

import os
import subprocess
import sys

import pytest

from tfos.base import executable


def run(*words):
    return subprocess.run([executable.path(), *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "subcommand is required"),
        (("frob",), "'frob' is not a subcommand; there are: doctor examples submit"),
        (("--frob",), "subcommand is required"),
        (("coordinator", "--frob"), "--frob"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(words, said):
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_commands_that_tfos_itself_starts_are_hidden():
    shown = run("--help").stdout
    unknown = run("frob").stderr
    for name in ("agent", "coordinator", "parameter-server", "command-table"):
        assert name not in shown
        assert name not in unknown
        assert run(name, "--help").returncode == 0, "it is there"


@pytest.mark.parametrize("words", [("examples", "list"), ("doctor", "--settings")])
def test_modules_of_the_working_directory_are_not_run(tmp_path, words):
    for name in ("tfos", "shlex"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    done = subprocess.run(
        [executable.path(), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_help_and_version_are_no_errors():
    assert "Usage: tfos" in run("--help").stdout
    for option in ("--help", "--version"):
        assert run(option).returncode == 0


@pytest.mark.parametrize(
    "words", [("top",), ("infer",), ("records", "convert"), ("examples", "copy"), ("submit",)]
)
def test_help_says_what_a_command_does_and_then_its_usage(words):
    done = run(*words, "--help")
    assert done.returncode == 0, done.stderr
    before, usage, after = done.stdout.partition("\nUsage: tfos " + " ".join(words))
    assert usage and before[0].isupper() and not before.split()[0].endswith("s"), done.stdout
    assert "Options:" in after
    assert "rint this help message" in after


@pytest.mark.parametrize(
    "words", [(), ("doctor",), ("stack",), ("infer",), ("submit",), ("records", "convert")]
)
def test_help_fits_into_a_terminal(words):
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [executable.path(), *words, "--help"], env=environment, capture_output=True, text=True
    )
    assert not [line for line in done.stdout.splitlines() if len(line) > 80]
    assert done.returncode == 0 and "  " in done.stdout


def test_bounds_are_told_as_people_write_them():
    shown = run("top", "--help").stdout
    assert "--interval SECONDS=2" in shown
    assert "Time between two looks; from 0.1 to 3600" in shown
    wrong = run("top", "--interval", "9999")
    assert wrong.returncode == 2
    assert "--interval: 9999; it must be from 0.1 to 3600 seconds" in wrong.stderr
    assert "-n,--lines LINES=100" in run("logs", "--help").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("completion", "bash"),
        ("doctor", "--settings"),
        ("examples", "list"),
        ("infer", "--help"),
        ("records", "--help"),
        ("submit", "--help"),
        ("tensorboard", "--help"),
    ],
)
def test_commands_run_in_their_own_python_whatever_the_executors_have(words):
    # As `tfos submit` sets it on YARN.
    environment = {**os.environ, "PYSPARK_PYTHON": "./environment/bin/python"}
    done = subprocess.run(
        [executable.path(), *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_console_script_says_which_python_it_is_installed_in(tmp_path):
    """With `pip install --target`, no interpreter lies above the executable. And that Python may
    start the `tfos` of another environment."""
    own = tmp_path / "own"
    own.write_text('#!/bin/sh\necho "own $* ${TFOS_PYTHON-unset}"\n')
    own.chmod(0o755)
    script = "import sys; from tfos.cli.main import main; sys.executable = sys.argv.pop(1); main()"
    done = subprocess.run(
        [sys.executable, "-c", script, own, "records", "count", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "own -P -m tfos.cli.records count x unset\n", done.stderr
