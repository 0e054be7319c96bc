"""How `tfos status` and its like find a cluster, and their exit codes: with a coordinator alone."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios

import pytest

from support.operating import follow, tfos
from support.page.simulated_cluster import SimulatedCluster
from support.waiting import BOUND_SECONDS, wait_for
from tfos.base import executable

RUNS, FAILED, USAGE, NO_ANSWER = 0, 1, 2, 3


def test_the_only_cluster_is_found(folder):
    with SimulatedCluster(2) as cluster:
        cluster.run(1)
        cluster.report(1, step=7, rows=896)
        wait_for(
            lambda: "896" in tfos("status").stdout, "the numbers of a node", seconds=BOUND_SECONDS
        )
        shown = tfos("status")
        assert shown.returncode == RUNS, shown.stderr
        assert f"cluster {cluster.cluster_id} (simulated): running, 2 nodes" in shown.stdout
        assert "worker:0  host-000.cluster.example  5001  running" in shown.stdout
        as_json = json.loads(tfos("status", cluster.cluster_id[:4], "--json").stdout)
        assert as_json["metrics"]["1"] == {"step": 7, "rows": 896}
        (file,) = folder.iterdir()
        assert file.stat().st_mode & 0o7777 == 0o600
        assert folder.stat().st_mode & 0o7777 == 0o700
        assert cluster.token not in file.read_text()
    assert not list(folder.iterdir()), "the coordinator takes its file along"
    none = tfos("status")
    assert none.returncode == FAILED
    assert "none of your clusters runs on this host" in none.stderr


@pytest.mark.parametrize("command", ["status", "top", "report", "stop"])
def test_several_clusters_are_listed(command):
    with SimulatedCluster(1) as one, SimulatedCluster(1) as two:
        listed = tfos(command)
        assert listed.returncode == USAGE
        assert "2 of your clusters run on this host" in listed.stderr
        assert f"Say which one with `tfos {command} CLUSTER`" in listed.stderr
        assert one.cluster_id in listed.stderr and two.cluster_id in listed.stderr
        wrong = tfos(command, "another")
        assert wrong.returncode == USAGE and "is called 'another'" in wrong.stderr
        assert f"cluster {two.cluster_id}" in tfos("status", two.cluster_id[:6]).stdout


def test_commands_about_a_node_say_that_the_cluster_is_an_option():
    with SimulatedCluster(1) as one, SimulatedCluster(1) as two:
        for command in ("logs", "stack", "profile"):
            listed = tfos(command, "chief:0")
            assert listed.returncode == USAGE
            how = f"Say which one with `tfos {command} NODE --cluster CLUSTER`"
            assert how in listed.stderr
            assert one.cluster_id in listed.stderr and two.cluster_id in listed.stderr


def ends_when_asked(cluster):
    def end(reason, timeout):
        cluster.coordinator.send("stop", reason=reason, grace_ms=0)
        for agent in cluster.agents:
            agent.close()

    cluster.coordinator._on_stop = end
    return cluster


def test_all_clusters_are_stopped_together():
    with (
        SimulatedCluster(1) as another,
        ends_when_asked(SimulatedCluster(1, name="mine")) as one,
        ends_when_asked(SimulatedCluster(1, name="mine")) as two,
    ):
        stop = tfos("stop", "--all", "mine")
        assert stop.returncode == RUNS, stop.stderr
        lines = [f"cluster {c.cluster_id} is asked to end" for c in (one, two)]
        lines += [f"cluster {c.cluster_id} has ended" for c in (one, two)]
        assert stop.stdout.splitlines() == lines
        assert "running" in tfos("status", another.cluster_id).stdout
        ends_when_asked(another)
        stop = tfos("stop", "--all")
        assert stop.returncode == RUNS, stop.stderr
        assert f"cluster {another.cluster_id} has ended" in stop.stdout
    none = tfos("stop", "--all")
    assert none.returncode == FAILED and "none of your clusters runs" in none.stderr
    refused = tfos("stop", "--all", "--link", link="")
    assert refused.returncode not in (RUNS, FAILED)


def test_a_cluster_whose_coordinator_was_killed_is_forgotten(folder):
    cluster = SimulatedCluster(1)
    os.kill(cluster.coordinator.pid, signal.SIGKILL)
    wait_for(lambda: cluster.coordinator.failure, "the driver to see that")
    assert list(folder.iterdir()), "it left its file"
    status = tfos("status")
    assert status.returncode == FAILED
    assert f"the coordinator of {cluster.cluster_id} was killed" in status.stderr
    assert not list(folder.iterdir())
    cluster.coordinator.close()


def test_a_coordinator_that_stands_still_gives_no_answer():
    with SimulatedCluster(1) as cluster:
        os.kill(cluster.coordinator.pid, signal.SIGSTOP)
        try:
            silent = tfos("status")
        finally:
            os.kill(cluster.coordinator.pid, signal.SIGCONT)
        assert silent.returncode == NO_ANSWER
        assert f"the coordinator of {cluster.cluster_id}" in silent.stderr
        assert "does not answer" in silent.stderr


def test_a_failed_cluster_says_why():
    with SimulatedCluster(2) as cluster:
        cluster.run(1)
        cluster.fail(1, "ValueError: too cold", "the traceback")
        wait_for(lambda: cluster.coordinator.failure, "the failure")
        failed = tfos("status")
        assert failed.returncode == FAILED
        assert "ValueError: too cold" in failed.stdout
        stop = tfos("stop")
        assert stop.returncode == FAILED and "the cluster has failed, and ends" in stop.stderr


def test_what_is_not_this_users_is_refused(folder):
    """As root, which tests run as, files can be given to others."""
    with SimulatedCluster(1) as cluster:
        (file,) = folder.iterdir()
        elsewhere = file.rename(folder.parent / "elsewhere.json")
        file.symlink_to(elsewhere)
        linked = tfos("status")
        assert linked.returncode == FAILED and "json is not used: it is a link" in linked.stderr
        elsewhere.rename(file)
        file.chmod(0o644)
        others = tfos("status")
        assert others.returncode == FAILED and "others may use it, too (mode 644)" in others.stderr
        file.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(file, 12345, 12345)
            foreign = tfos("status")
            assert foreign.returncode == FAILED
            assert "it belongs to the user 12345" in foreign.stderr
            os.chown(file, 0, 0)
            # That user may not be able to read this checkout.
            with tempfile.TemporaryDirectory() as readable:
                os.chmod(readable, 0o755)
                command = [shutil.copy(executable.path(), readable), "status"]
                other = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    user=12345,
                    group=12345,
                    extra_groups=[],
                )
            assert other.returncode == FAILED and cluster.cluster_id not in other.stdout
        assert tfos("status").returncode == RUNS


def test_elsewhere_a_link_serves(monkeypatch):
    with SimulatedCluster(2) as cluster:
        monkeypatch.setenv("TFOS_RUNTIME_DIR", "/nowhere")
        read = tfos("status", "--link", link=cluster.link + "\n")
        assert read.returncode == RUNS, read.stderr
        stop = tfos("stop", "--link", link=cluster.link + "\n")
        assert stop.returncode == USAGE and "is for reading only" in stop.stderr
        wrong = tfos("status", "--link", link=cluster.link[:-8] + "00000000")
        assert wrong.returncode == USAGE and "does not open this cluster" in wrong.stderr
        nothing = tfos("status", "--link", link="worker:0")
        assert (
            nothing.returncode == USAGE and "Expected http://HOST:PORT/#key=KEY" in nothing.stderr
        )
    ended = tfos("status", "--link", link=cluster.link)
    assert ended.returncode == NO_ANSWER


def test_a_terminal_does_not_show_the_key():
    with SimulatedCluster(1) as cluster:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(executable.path(), ["tfos", "status", "--link"])
        shown = b""
        while b"Link (" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, cluster.link.encode() + b"\n")
        while b"chief:0" not in shown:
            shown += os.read(terminal, 1000)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert status == 0
    assert cluster.read_key.encode() not in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_shows_what_is_typed_again_after_a_signal(number):
    terminal, end = os.openpty()
    process = subprocess.Popen(
        [executable.path(), "status", "--link"], stdin=end, stdout=end, stderr=end
    )
    shown = b""
    while b"Link (" not in shown:
        shown += os.read(terminal, 1000)
    assert not termios.tcgetattr(end)[3] & termios.ECHO
    process.send_signal(number)
    assert process.wait(BOUND_SECONDS) == -number
    assert termios.tcgetattr(end)[3] & termios.ECHO
    os.close(terminal)
    os.close(end)


def test_top_goes_on_until_the_cluster_ends():
    with SimulatedCluster(2) as cluster:
        cluster.run(0)
        top = follow("top", "--interval", "0.1")
        blocks = 0
        while blocks < 3:
            line = top.stdout.readline()
            blocks += line.startswith(f"cluster {cluster.cluster_id} (simulated): running")
        for node in range(2):
            cluster.end(node)
        rest = top.stdout.read()
        assert f"cluster {cluster.cluster_id} (simulated): ended" in rest
        assert top.wait(BOUND_SECONDS) == RUNS
        top.stdout.close()


def test_top_ends_with_its_reader_also_where_its_signal_is_ignored():
    with SimulatedCluster(2) as cluster:
        cluster.run(0)
        reader, writer = os.pipe()
        # Python ignores SIGPIPE, and so does what it starts like this.
        top = subprocess.Popen(
            [executable.path(), "top", "--interval", "0.1"], stdout=writer, restore_signals=False
        )
        os.close(writer)
        os.read(reader, 1000)
        os.close(reader)
        assert top.wait(BOUND_SECONDS) == FAILED


def test_top_paints_over_itself_on_a_terminal():
    with SimulatedCluster(1) as cluster:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(executable.path(), ["tfos", "top", "--interval", "0.1"])
        shown = b""
        while len(up := re.findall(rb"\x1b\[(\d+)A", shown)) < 2:
            shown += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.WTERMSIG(status) == signal.SIGINT
    title = f"cluster {cluster.cluster_id} (simulated): running, 1 node".encode()
    first, second = re.split(rb"\x1b\[\d+A", shown)[:2]
    assert title in first and title in second
    # As many lines up as there were: about the cluster, its progress, the names of the columns, a
    # node.
    assert [int(lines) for lines in up[:2]] == [first.count(b"\n"), second.count(b"\n")]


def test_top_cuts_lines_to_the_terminal():
    with SimulatedCluster(1):
        pid, terminal = pty.fork()
        if pid == 0:
            size = struct.pack("HHHH", 24, 30, 0, 0)
            fcntl.ioctl(1, termios.TIOCSWINSZ, size)
            os.execv(executable.path(), ["tfos", "top", "--interval", "0.1"])
        shown = b""
        while not re.search(rb"\x1b\[\d+A", shown):
            shown += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        os.waitpid(pid, 0)
        os.close(terminal)
    first = re.split(rb"\x1b\[\d+A", shown)[0]
    lines = re.sub(rb"\x1b\[[KJ]", b"", first).splitlines()
    assert max(len(line.strip(b"\r")) for line in lines) == 30


@pytest.mark.parametrize("command", ["status", "top", "logs", "stack", "report", "stop"])
def test_a_wrong_command_line_is_a_matter_of_usage(command):
    assert tfos(command, "--frob").returncode == USAGE
    assert "--link" in tfos(command, "--help").stdout
    if command in ("logs", "stack"):
        without_node = tfos(command)
        assert without_node.returncode == USAGE
        assert without_node.stderr.startswith(f"tfos {command}: NODE is required")


def test_a_node_that_is_not_there_is_named():
    with SimulatedCluster(1):
        for command in ("logs", "stack"):
            wrong = tfos(command, "worker:7")
            assert wrong.returncode == USAGE
            assert "the cluster has no node 'worker:7'; it has chief:0" in wrong.stderr


def test_output_that_nobody_reads_ends_the_command():
    with SimulatedCluster(1):
        top = subprocess.Popen(
            [executable.path(), "top", "--interval", "0.1"], stdout=subprocess.PIPE
        )
        top.stdout.readline()
        top.stdout.close()
        assert top.wait(BOUND_SECONDS) == -signal.SIGPIPE
