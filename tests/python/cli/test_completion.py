"""``tfos completion``: the scripts that it prints, in a real bash."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

import pytest

from support.page.simulated_cluster import SimulatedCluster
from tfos.base import executable
from tfos.cli import completion, infer, records

#: What bash does when a person presses the key, with the words of the line as arguments.
_PRESS = """
source "$1"; shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_tfos
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "tfos.bash"
    printed = subprocess.run(
        [executable.path(), "completion", "bash"], capture_output=True, text=True, check=True
    )
    path.write_text(printed.stdout)
    return path


@pytest.fixture
def press(script):
    def complete(*words):
        done = subprocess.run(
            ["bash", "--norc", "-c", _PRESS, "bash", str(script), "tfos", *words],
            env={**os.environ, "PATH": f"{Path(executable.path()).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.split()

    return complete


def test_subcommands_are_completed(press):
    everything = press("")
    assert {"status", "top", "logs", "submit", "records", "completion"} <= set(everything)
    assert not {"agent", "coordinator", "parameter-server", "command-table"} & set(everything)
    assert press("st") == ["status", "stack", "stop"]
    assert press("completion", "") == ["bash", "fish", "zsh"]
    assert "convert" in press("records", "")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["--v"], ["--version"]),
        (["status", "--j"], ["--json"]),
        (["logs", "worker:0", "--fol"], ["--follow"]),
        (["profile", "worker:0", "--s"], ["--seconds"]),
        (["top", "my-cluster", "--in"], ["--interval"]),
        (["records", "convert", "--over"], ["--overwrite"]),
        (["infer", "--record-type", ""], ["Example", "SequenceExample"]),
        (["infer", "--record-type", "=", "Seq"], ["SequenceExample"]),
        (["submit", "--python"], ["--python-env"]),
        (["examples", "copy", "quick"], ["quickstart"]),
        (["examples", "copy", "--to", "x", "quickstart", "quick"], ["quickstart"]),
        (["examples", "copy", "--t"], ["--to"]),
        # A file's name, as bash itself completes it.
        (["top", "--interval", ""], []),
        (["infer", "--output", ""], []),
        (["tensorboard", ""], []),
    ],
    ids=" ".join,
)
def test_options_and_their_values_are_completed(press, words, completed):
    assert press(*words) == completed


def test_nodes_and_clusters_that_run_are_completed(press, tmp_path, monkeypatch):
    monkeypatch.setenv("TFOS_RUNTIME_DIR", str(tmp_path / "clusters"))
    assert press("stack", "") == []
    with SimulatedCluster(2) as cluster:
        nodes = ["chief:0", "worker:0"]
        assert press("stack", "") == press("profile", "--cluster", "x", "") == nodes
        # Bash cuts words at colons.
        assert press("logs", "worker", ":") == press("logs", "worker", ":", "0") == ["0"]
        assert press("logs", "-f", "w") == ["worker:0"]
        clusters = [cluster.cluster_id, "simulated"]
        assert press("status", "") == press("logs", "worker:0", "--cluster", "") == clusters
        assert press("stop", "sim") == press("logs", "--cluster", "=", "sim") == ["simulated"]
        assert press("stack", "--cl") == ["--cluster"]
    assert press("status", "") == []


def test_a_name_that_a_shell_would_expand_is_not_offered(press, tmp_path, monkeypatch):
    monkeypatch.setenv("TFOS_RUNTIME_DIR", str(tmp_path / "clusters"))
    with SimulatedCluster(1, name=f"$(touch {tmp_path}/made)") as cluster:
        assert press("status", "") == [cluster.cluster_id]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_script_has_all_options_of_all_parsers(shell):
    printed = completion._SCRIPTS[shell](completion.tables())
    for parser in (infer.parser(), records.parser()):
        for name in _options(parser):
            known = name if shell != "fish" else name.replace("--", "-l ")
            assert known in printed
    usage = subprocess.run(
        [executable.path(), "stop", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--timeout" in usage and "timeout" in printed


def _options(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _options(below)
        yield from (name for name in action.option_strings if name.startswith("--"))


def test_texts_of_people_are_quoted():
    option = completion.Option(("--x",), "Alice's\n  \\ wish", False)
    command = completion.Command((), "", [option])
    assert "'--x:Alice'\\''s \\ wish'" in completion.zsh(command)
    assert "-d 'Alice\\'s \\\\ wish'" in completion.fish(command)


def test_another_shell_is_refused():
    done = subprocess.run(
        [executable.path(), "completion", "cmd"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "bash" in done.stderr
