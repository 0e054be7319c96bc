"""Everything that can die is killed, at start, while feeding and at the end: nothing is left, and
the message says what died.

The driver is a process of its own (drive.py), so that it can be killed, too. Where neither it nor
a process of Spark's is killed, it goes on with the next test: most of the time goes into starting Spark.
"""

from __future__ import annotations

import itertools
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

pytestmark = pytest.mark.spark  # The driver, a process of its own, starts it.
DRIVE = SCRIPTS / "drive.py"


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
        cluster_id = self.wait_for("cluster")["id"]
        self.wait_for_pids()
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
        return cluster_id

    def wait_for_pids(self):
        self._wait_for(
            lambda: len(list(self.directory.glob("pids-*"))) == 2, "the pids of both nodes"
        )

    def remember_starting(self):
        """As `remember`, while one node starts and the other has no slot yet."""
        self.wait_for("launching")
        self._wait_for(self._find_starting, "an agent and all around it")

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


@pytest.fixture(scope="module")
def lasting():
    """The driver that goes on with the next test, if there is one."""
    drivers = []
    yield drivers
    for driver in drivers:
        driver.process.stdin.close()
        code = driver.process.wait(BOUND_SECONDS)
        driver.close()
        assert code == 0, "after all that has been killed it ends as it should"


@pytest.fixture
def drive(lasting, tmp_path, tmp_path_factory, leftovers):
    """Has a program run, by a driver that is `alone` with it or by the one that goes on."""
    drives = []

    def start(program, action, alone=True):
        if alone:
            driver = Driver(tmp_path, program, action)
        else:
            if not lasting:
                lasting.append(Driver(tmp_path_factory.mktemp("driver")))
            (driver,) = lasting
            driver.tell(program, action, tmp_path)
        drives.append(Drive(tmp_path, driver))
        return drives[-1]

    yield start
    for one in drives:
        if one.driver in lasting and one.is_over:
            continue
        for processes in one.members.values():
            for process in processes:
                if process.is_running():
                    process.kill()
        if one.driver in lasting:  # The test has failed, and it may be anywhere.
            lasting.remove(one.driver)
        one.driver.close()


#: The victim: what the driver's error says, with that process's id for PID where it is named.
CAUSES = {
    "coordinator": "the coordinator (process PID on the driver's host) was killed by SIGKILL",
    "executor": "the Spark executor (process PID) has ended",
    "agent": "is lost: the connection to its agent (pid PID) broke",
    "node": "the node's process was killed by SIGKILL (signal 9)",
    "python worker": "the Spark task that had started the node was killed or has died",
}

#: Whose death ends the driver, or has Spark start others in their place.
OF_SPARK = {"driver", "executor", "python worker"}

#: The phases of a cluster that has formed, and what its nodes run meanwhile.
PROGRAMS = {
    "load": "HangsWhileLoading",
    "feed": "read_slowly_with_a_child",
    "infer": "echo_slowly_with_a_child",
    "cache": "read_slowly_with_a_child",
    "shutdown": "wait_for_ever_with_a_child",
    "wait": "wait_for_ever_with_a_child",
}


@pytest.mark.parametrize(
    "phase, victim",
    [
        ("load", "node"),
        *itertools.product(["feed", "shutdown"], ["coordinator", "executor", "agent", "node"]),
        *itertools.product(["infer", "cache"], ["coordinator", "agent", "node"]),
    ],
)
def test_a_killed_member_ends_the_cluster_and_is_named(drive, victim, phase):
    driver = drive(PROGRAMS[phase], phase, alone=victim in OF_SPARK)
    driver.remember()
    driver.wait_for(phase)
    cause = driver.kill(victim)
    raised, left = driver.fails()
    assert left == []
    assert cause in raised


@pytest.mark.parametrize("phase", ["feed", "infer", "cache", "shutdown"])
def test_a_killed_driver_leaves_nothing(drive, phase):
    driver = drive(PROGRAMS[phase], phase)
    driver.remember()
    driver.wait_for(phase)
    driver.kill("driver")
    assert driver.ends() == (-signal.SIGKILL, [])


@pytest.mark.parametrize("phase", ["feed", "wait", "shutdown"])
def test_ctrl_c_ends_everything(drive, phase):
    driver = drive(PROGRAMS[phase], phase)
    driver.remember()
    driver.wait_for(phase)
    driver.process.send_signal(signal.SIGINT)
    code, left = driver.ends()
    assert (code, left) == (-signal.SIGINT, [])
    assert "KeyboardInterrupt" in driver.read_errors()


def test_a_spark_session_that_stops_in_mid_feed_ends_everything(drive):
    driver = drive(PROGRAMS["feed"], "stop")
    driver.remember()
    driver.wait_for("feed")
    code, left = driver.ends()
    assert (code, left) == (1, [])
    # The feed's job is told by Spark, and its nodes that their executors end: either is first.
    errors = driver.read_errors()
    assert "SparkContext was shut down" in errors or "NodeFailedError" in errors
    assert "AttributeError" not in errors, "what came of it hides the cause"


def test_a_killed_python_worker_is_retried_and_its_rows_are_not_fed_twice(drive):
    driver = drive("collect_rows", "count")
    pid = driver.wait_for("worker")["pid"]
    os.kill(pid, signal.SIGKILL)
    counted = driver.wait_for("counted")
    assert driver.process.wait(BOUND_SECONDS) == 0, driver.read_errors()
    assert counted == {"rows": 4000, "distinct": 4000}


@pytest.mark.parametrize("victim", ["coordinator", "executor", "agent", "python worker"])
def test_a_death_during_start_up(drive, victim):
    """The second node never gets a slot, so the cluster is caught in the middle of starting."""
    driver = drive("wait_for_ever_with_a_child", "start", alone=victim in OF_SPARK)
    driver.remember_starting()
    cause = driver.kill(victim)
    raised, left = driver.fails()
    assert left == []
    if victim == "executor":
        # Its end is seen by its agent and by Spark, and while they start either may be the first to
        # tell.
        of_spark = "launch the nodes" in raised and "ExecutorLostFailure" in driver.read_errors()
        assert of_spark or cause in raised, driver.read_errors()
    else:
        assert cause in raised, raised


def test_a_driver_that_is_killed_during_start_up_leaves_nothing(drive):
    driver = drive("wait_for_ever_with_a_child", "start")
    driver.remember_starting()
    driver.kill("driver")
    assert driver.ends() == (-signal.SIGKILL, [])
