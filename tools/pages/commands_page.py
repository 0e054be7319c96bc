"""Writes docs/commands.md from the help of the installed tfos; with --check only compares."""

import os
import pathlib
import subprocess
import sys

from tfos.base import executable
from tfos.cli import completion

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "commands.md"

HEAD = """# Commands

All commands of `tfos`, with their options, as `--help` shows them. `LINES=100` means that 100 is the default, and `{a,b}` that the value is one of these. With [completion](operate.md#completion), your shell completes them. `tfos --version` prints the version.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it failed, and standard error says why; a check of `tfos doctor` or `tfos records verify` failed; the cluster of `tfos status` or `tfos top` has failed |
| 2 | the command line is wrong |
| 3 | `tfos status`, `top`, `logs`, `stack`, `profile`, `report` and `stop`: the coordinator, or a node's agent, does not answer ([more about these](operate.md)) |
| 127 | the Python that has tfos can't be started |

`tfos submit` becomes `spark-submit`, and `tfos tensorboard` becomes TensorBoard, so they end with the codes of these.

This page is made from the installed program by `.venv/bin/python tools/pages/commands_page.py`.
"""  # noqa: E501  (lines of the page)

#: What the page says above the help of a command, after what the program calls it.
ABOUT = {
    "doctor": "Run it on the driver's host and on an executor's, or once with `--cluster` "
    "([what it shows](troubleshooting.md#tfos-doctor)).",
    "examples": "[Their page](../examples) says what each of them shows.",
    "submit": "[Running on a cluster](submit.md) has examples, and says what is added.",
    "status": "[Status](operate.md#status) explains the table, and "
    "[how a cluster is found](operate.md#how-a-cluster-is-found) where it looks for clusters.",
    "top": "It shows the table of [`tfos status`](operate.md#status) until the cluster ends, or "
    "you press Ctrl-C.",
    "logs": "[Logs](operate.md#logs) says how much of a node's output is kept.",
    "stack": "[Stacks](operate.md#stacks) explains the answer, and what asking may cost.",
    "profile": "[Profile](operate.md#profile) explains the tables, and what a profile costs.",
    "report": "[The page of a cluster](page.md) says what the file shows.",
    "stop": "[Stop](operate.md#stop) says how programs end, and "
    "[stopping from a scheduler](operate.md#stopping-from-a-scheduler) how to use it there.",
    "tensorboard": "It takes the options of TensorBoard, such as `--logdir hdfs:///user/me/logs` "
    "and `--port 6006`. `tfos tensorboard --help` lists those of the version that is installed "
    "([TensorBoard on HDFS](hdfs.md#tensorboard)).",
    "records": "[TFRecords](tfrecords.md#command-line) has examples, and says what is converted.",
    "infer": "[Files: tfos infer](inference.md#files-tfos-infer) has examples, and explains "
    "formats and columns.",
    "completion": "[Completion](operate.md#completion) says what is completed.",
}

#: These print the help of another program, which may have any version.
OF_OTHERS = frozenset({"tensorboard"})


def section(command):
    """The blocks of a command, and of those below it."""
    yield f"{'#' * (1 + len(command.path))} tfos {command.words}"
    yield f"{command.help}. {ABOUT.get(command.words, '')}".rstrip()
    if command.words not in OF_OTHERS:
        text = help_of(command.path).removeprefix(f"{command.help}\n")
        yield f"```text\n{text}\n```"
    for below in commands_of(command):
        yield from section(below)


def help_of(words):
    done = subprocess.run(
        [executable.path(), *words, "--help"],
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commands_of(command):
    """Those below it, without the words that are values, such as the names of shells."""
    return [below for below in command.commands if below.help]


def page():
    blocks = [block for command in commands_of(completion.tables()) for block in section(command)]
    return HEAD + "\n" + "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(
                f"{PAGE.relative_to(ROOT)} differs from the installed commands: run `make build`, "
                f"and then {sys.argv[0]}"
            )
    else:
        PAGE.write_text(page())
