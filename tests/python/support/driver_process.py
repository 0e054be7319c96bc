"""The driver of a cluster as a process of its own (scripts/drive.py), so that it can be killed, too,
and the processes of its cluster."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import psutil
import pytest

from support.places import SCRIPTS
from support.waiting import BOUND_SECONDS, wait_for

DRIVE = SCRIPTS / "drive.py"

#: The victim: what the driver's error says, with that process's id for PID where it is named.
CAUSES = {
    "coordinator": "the coordinator (process PID on the driver's host) was killed by SIGKILL",
    "executor": "the Spark executor (process PID) has ended",
    "agent": "is lost: the connection to its agent (pid PID) broke",
    "node": "the node's process was killed by SIGKILL (signal 9); "
    "the kernel's out-of-memory killer does that",
    "python worker": "the Spark task that had started the node was killed or has died",
}

#: Whose death ends the driver, or has Spark start others in their place.
OF_SPARK = {"driver", "executor", "python worker"}

#: The phases of a cluster, and what its nodes run meanwhile.
PROGRAMS = {
    "start": "wait_for_ever_with_a_child",
    "load": "HangsWhileLoading",
    "feed": "read_slowly_with_a_child",
    "train": "all_reduce_for_ever_with_a_child",
    "push": "push_for_ever_with_a_child",
    "infer": "echo_slowly_with_a_child",
    "cache": "read_slowly_with_a_child",
    "shutdown": "wait_for_ever_with_a_child",
    "wait": "wait_for_ever_with_a_child",
}


class Driver:
    """The process of a driver: for one program or, without one, for those that it is told."""

    def __init__(self, directory, *program_and_action):
        self.directory = directory
        self.errors = open(directory / "driver.err", "w+")
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVE), str(directory), *program_and_action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )
        self.is_alone = bool(program_and_action)

    def tell(self, program, action, directory):
        self.process.stdin.write(json.dumps([program, action, str(directory)]) + "\n")
        self.process.stdin.flush()

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.errors.close()


class Drive:
    """A program that a driver runs, and the processes of its cluster."""

    def __init__(self, directory, driver):
        self.directory = directory
        self.driver = driver
        self.process = driver.process
        self._errors = pathlib.Path(driver.errors.name)
        self._errors_before = self._errors.stat().st_size
        self.members = {}
        self.is_over = False

    def wait_for(self, event):
        """Reads the driver's lines up to ``event`` and returns what it said with it."""
        for line in self.process.stdout:
            name, _, rest = line.strip().partition(" ")
            if name == event:
                return json.loads(rest) if rest else None
            if name == "raised":
                pytest.fail(f"the program ended before {event!r}: {json.loads(rest)['text']}")
        pytest.fail(f"the driver ended before {event!r}: {self.read_errors()}")

    def read_errors(self):
        return "\n".join(
            line
            for line in self._errors.read_text().splitlines()
            if not line.startswith("\tat ") and " WARN " not in line
        )

    def remember(self):
        """Snapshots the cluster's processes by role: everything below the driver, and what has
        left its tree."""
        cluster = self.wait_for("cluster")
        self.wait_for_pids(cluster["programs"])
        driver = psutil.Process(self.process.pid)
        below = driver.children(recursive=True)
        roles = {"driver": [driver]}
        for process in below:
            role = _role(process)
            if role:
                roles.setdefault(role, []).append(process)
        for path in self.directory.glob("pids-*"):
            node, *others = [psutil.Process(int(pid)) for pid in path.read_text().split()]
            roles.setdefault("node", []).append(node)
            roles.setdefault("agent", []).append(node.parent())
            roles.setdefault("node's child", []).extend(others)
        self.members = roles

    def wait_for_pids(self, programs):
        self._wait_for(
            lambda: len(list(self.directory.glob("pids-*"))) == programs, "the pids of the nodes"
        )

    def remember_starting(self):
        """As `remember`, while one node starts and the other has no slot yet."""
        self.wait_for("launching")
        self._wait_for(self._find_starting, "an agent and all around it")

    def reach(self, phase):
        """Returns in the middle of the phase, with the cluster's processes in `members`."""
        if phase == "start":
            self.remember_starting()
        else:
            self.remember()
            self.wait_for(phase)

    def _find_starting(self):
        """Fills `members`; False while some of them are not there yet, or the coordinator does not
        know the node: Spark would start a launch task again that ends before."""
        if b"registered (waiting" not in self._errors.read_bytes()[self._errors_before :]:
            return False
        below = psutil.Process(self.process.pid).children(recursive=True)
        self.members = {"driver": [psutil.Process(self.process.pid)]}
        for process in below:
            if (role := _role(process)) == "coordinator":
                self.members[role] = [process]
        # An agent leaves its launcher's tree, and works where the executor does.
        for agent in psutil.process_iter():
            if _is_agent_of(agent, self.driver.directory):
                self.members["agent"] = [agent]
                executor = next(
                    p for p in below if _role(p) == "executor" and p.cwd() == agent.cwd()
                )
                self.members["executor"] = [executor]
                self.members["python worker"] = [
                    worker
                    for worker in executor.children(recursive=True)
                    if _role(worker) == "python worker"
                ]
        return len(self.members) == 5 and all(self.members.values())

    def _wait_for(self, condition, what):
        def has_come():
            if condition():
                return True
            assert self.process.poll() is None, (
                f"the driver ended before {what}: {self.read_errors()}"
            )
            return False

        wait_for(has_come, lambda: f"{what}; the driver has said: {self.read_errors()}")

    def let_stop(self):
        """Has the driver of a phase `and stop` stop its session."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self, role):
        """Kills the first of them, and returns what the driver's error must say."""
        victim = self.members[role][0]
        victim.kill()
        return CAUSES.get(role, "").replace("PID", str(victim.pid))

    def ends(self):
        """The driver's exit code, and the roles that still run although they may not."""
        try:
            code = self.process.wait(BOUND_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail("the driver hung: " + self.read_errors())
        return code, self._left(self.members)

    def fails(self):
        """What the driver's error says, and the roles that still run although they may not."""
        if self.driver.is_alone:
            code, left = self.ends()
            assert code == 1
            return "\n".join(
                line for line in self.read_errors().splitlines() if "tfos" in line
            ), left
        raised = self.wait_for("raised")["text"]
        self.is_over = True
        return raised, self._left(self.members.keys() - OF_SPARK)

    def _left(self, roles):
        """Those of the roles that still run."""
        everyone = [p for role in roles for p in self.members[role]]
        _, alive = psutil.wait_procs(everyone, timeout=BOUND_SECONDS)
        return [role for role in roles for p in self.members[role] if p in alive]


def _role(process):
    """What of a cluster a process below the driver is; None for anything else."""
    try:
        command = " ".join(process.cmdline())
        if command.endswith("tfos coordinator"):
            return "coordinator"
        if "CoarseGrainedExecutorBackend" in command:
            return "executor"
        if "pyspark.daemon" in command and "pyspark.daemon" in " ".join(process.parent().cmdline()):
            return "python worker"
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return None  # it ended while being looked at
    return None


def _is_agent_of(process, directory):
    try:
        return (
            process.cmdline()[-1:] == ["agent"]
            and process.ppid() == 1
            and process.environ().get("TFOS_TEST_DIRECTORY") == str(directory)
        )
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return False  # it ended while being looked at, or is somebody else's
