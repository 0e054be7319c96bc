"""What ``tfos`` itself answers, before a subcommand begins."""

import subprocess

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


def test_help_and_version_are_no_errors():
    assert "Usage: tfos" in run("--help").stdout
    for option in ("--help", "--version"):
        assert run(option).returncode == 0
