"""`tfos status`, `logs`, `stack` and `stop` on a standalone cluster of Spark, as a user runs them."""

from __future__ import annotations

import getpass
import os
import signal

import pytest

from support.operating import follow, pid_of, start, stop_when, wait_for_files
from support.operating import tfos as run_tfos
from support.programs import operate
from support.waiting import BOUND_SECONDS, wait_for
from tfos.errors import ClusterStoppedError

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)


def test_status_and_logs_of_running_nodes(standalone_spark, tmp_path, leftovers):
    with start(standalone_spark, operate.say_lines_and_wait, tmp_path) as cluster:
        wait_for_files(tmp_path, "said")
        status = run_tfos("status")
        assert status.returncode == 0, status.stderr
        name = standalone_spark.sparkContext.appName
        assert f"cluster {cluster.cluster_id} ({name}): running, 2 nodes" in status.stdout
        assert str(pid_of(cluster, "worker:1")) in status.stdout
        wait_for(lambda: "line 199 of worker:1" in run_tfos("logs", "worker:1").stdout, "all lines")
        last = run_tfos("logs", "1", "--lines", "2")
        assert last.stdout == "line 198 of worker:1\nline 199 of worker:1\n"
        for wrong in ("-3", "1000001", "x"):
            refused = run_tfos("logs", "1", "-n", wrong)
            assert refused.returncode == 2
            assert f"{wrong}; it must be from 0 to 1000000\n" in refused.stderr
        # As many lines as that, though more are there.
        assert run_tfos("logs", "worker:0").stdout.count("\n") == 100

        followers = [follow("logs", "worker:1", "-f", "-n", "1") for _ in range(2)]
        slow = follow("logs", "worker:1", "-f", "-n", "200")  # Nobody reads it.
        for follower in followers:
            assert follower.stdout.readline() == "line 199 of worker:1\n"
        for number in range(3):
            part = tmp_path / f"part-{number}"
            part.write_text(f"news {number}")
            part.rename(tmp_path / f"say-{number}")
            for follower in followers:
                assert follower.stdout.readline() == f"news {number}\n"
        (tmp_path / "end").touch()
        for follower in followers:
            rest = follower.stdout.read()
            assert rest.endswith("the last words\n")
            # Nothing twice, though its agent tells the end of the output once more at its end.
            assert rest.count("the last words") == 1 and "line 199" not in rest
            assert follower.wait(BOUND_SECONDS) == 0
            follower.stdout.close()
        assert slow.stdout.read().endswith("the last words\n")
        assert slow.wait(BOUND_SECONDS) == 0
        slow.stdout.close()


def test_the_output_of_a_node_that_has_ended_is_there_as_long_as_the_cluster(
    standalone_spark, tmp_path, leftovers
):
    with start(standalone_spark, operate.say_lines_and_wait, tmp_path) as cluster:
        wait_for_files(tmp_path, "said")
        (tmp_path / "end").touch()
        wait_for(lambda: all(node.state == "done" for node in cluster.status()), "the nodes' end")
        ended = run_tfos("logs", "worker:0", "-f")
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.endswith("line 199 of worker:0\nthe last words\n")
        wait_for(
            lambda: "the node is done" in run_tfos("stack", "worker:0").stderr, "its agent's end"
        )


def test_stacks_of_a_node_that_waits_and_of_one_that_is_stopped(
    standalone_spark, tmp_path, leftovers
):
    with start(standalone_spark, operate.wait_on_the_main_thread, tmp_path) as cluster:
        wait_for_files(tmp_path, "waits")
        waits = run_tfos("stack", "worker:0")
        assert waits.returncode == 0, waits.stderr
        pid = pid_of(cluster, "worker:0")
        assert f"thread {pid} 'MainThread', the latest call last:" in waits.stdout
        assert "in wait_in_python" in waits.stdout
        assert "time.sleep(0.01)" in waits.stdout, "with the program's own lines"
        native = waits.stdout.partition("Native calls of all threads, the latest last:\n")[2]
        assert f"'python' {pid}" in native or f"thread {pid} 'python'" in native
        assert "... Python, see above ..." in native
        assert f"Threads of process {pid}, as the kernel sees them:" in waits.stdout
        assert "tfos-hear-agent" in waits.stdout

        os.kill(pid, signal.SIGSTOP)
        stopped = run_tfos("stack", "worker:0")
        assert stopped.returncode == 0, stopped.stderr
        assert (
            "it is frozen (stopped by SIGSTOP or SIGTSTP; SIGCONT lets it go on)" in stopped.stdout
        )
        assert "is frozen" in stopped.stdout.partition("as the kernel sees them")[2]
        assert "wait_in_python" not in stopped.stdout
        assert "... Python, see above ..." in stopped.stdout, "native calls all the same"
        os.kill(pid, signal.SIGCONT)
        wait_for(
            lambda: "in wait_in_python" in run_tfos("stack", "worker:0").stdout, "its stacks again"
        )
        (tmp_path / "end").touch()


def test_stacks_of_a_node_that_holds_pythons_lock_in_native_code(
    standalone_spark, tmp_path, leftovers
):
    with pytest.raises(ClusterStoppedError, match="has stopped the cluster with `tfos stop`"):
        with start(standalone_spark, operate.hang_in_native_code, tmp_path) as cluster:
            wait_for_files(tmp_path, "hangs")
            for _ in range(2):
                hangs = run_tfos("stack", "worker:1")
                assert hangs.returncode == 0, hangs.stderr
                assert "A thread holds Python's lock in native code" in hangs.stdout
                assert "in hang_natively" in hangs.stdout
                assert "... Python, see above ..." in hangs.stdout, "with native calls"
                assert "in wait_in_python" in hangs.stdout, "of the thread that waits for the lock"
                pid = pid_of(cluster, "worker:1")
                assert f"{pid}  " in hangs.stdout.partition("as the kernel sees them")[2]
            stop = run_tfos("stop")
            assert stop.returncode == 0, stop.stderr
            assert f"cluster {cluster.cluster_id} has ended" in stop.stdout
            cluster.wait(BOUND_SECONDS)


@pytest.mark.long
def test_a_node_that_computes_is_not_harmed_by_those_who_ask(standalone_spark, tmp_path, leftovers):
    with start(standalone_spark, operate.multiply_matrices, tmp_path) as cluster:
        wait_for_files(tmp_path, "computes")
        pid = pid_of(cluster, "worker:0")
        for _ in range(50):
            stacks = run_tfos("stack", "worker:0")
            assert stacks.returncode == 0, stacks.stderr
            assert "Native calls of all threads, the latest last:" in stacks.stdout
            assert "in multiply_matrices" in stacks.stdout
        assert pid_of(cluster, "worker:0") == pid
        (tmp_path / "end").touch()
        cluster.wait(BOUND_SECONDS)
    wait_for_files(tmp_path, "ended")


def test_a_native_parameter_server_has_no_stacks_of_python(standalone_spark, tmp_path, leftovers):
    with start(standalone_spark, operate.wait_on_the_main_thread, tmp_path, parameter_servers=1):
        wait_for_files(tmp_path, "waits", 1)
        server = run_tfos("stack", "ps:0")
        assert server.returncode == 0, server.stderr
        assert "the node runs no Python" in server.stdout
        assert "tfos-serve" in server.stdout
        assert "poll (libc.so.6)" in server.stdout, "its native calls"
        (tmp_path / "end").touch()


def test_stop_ends_a_cluster_that_is_fed_in_order(standalone_spark, tmp_path, leftovers, capsys):
    rows = standalone_spark.sparkContext.parallelize(range(10_000), 2)
    with stop_when(tmp_path, "reads") as stopped, pytest.raises(ClusterStoppedError) as raised:
        with start(standalone_spark, operate.read_rows_and_say_so, tmp_path, "spark") as cluster:
            cluster.train(rows, epochs=10**6)
    assert stopped[0].returncode == 0, stopped[0].stderr
    assert f"cluster {cluster.cluster_id} has ended" in stopped[0].stdout
    assert str(raised.value).startswith(f"{getpass.getuser()}@")
    assert all(int((tmp_path / f"saved-{n}").read_text()) > 0 for n in range(2)), "both could save"
    assert [node.state for node in cluster.status()] == ["done", "done"]
    said = "".join(capsys.readouterr())
    assert " stopped | " in said and " failed | " not in said
    assert run_tfos("status").returncode == 1


def test_stop_with_a_link_from_elsewhere(standalone_spark, tmp_path, leftovers, monkeypatch):
    cluster = start(standalone_spark, operate.wait_on_the_main_thread, tmp_path)
    wait_for_files(tmp_path, "waits")
    monkeypatch.setenv("TFOS_RUNTIME_DIR", "/nowhere")
    refused = run_tfos("stop", "--link", link=cluster.page_url)
    assert refused.returncode == 2 and "is for reading only" in refused.stderr
    lines = run_tfos("logs", "worker:0", "--link", link=cluster.page_url)
    assert lines.returncode == 0, lines.stderr
    stop = run_tfos("stop", "--link", link=cluster.operate_link)
    assert stop.returncode == 0, stop.stderr
    with pytest.raises(ClusterStoppedError):
        cluster.shutdown()
