"""`tfos profile` of nodes of a standalone cluster of Spark, as a user runs it."""

from __future__ import annotations

import json
import os
import pathlib
import signal

import pytest

import tfos
from support.operating import follow, pid_of, start, wait_for_files
from support.operating import tfos as run_tfos
from support.programs import operate
from support.waiting import BOUND_SECONDS, wait_for

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)

#: Longer than any test: what is to end earlier.
LONG = ("--seconds", "300")


@pytest.fixture(autouse=True)
def current_directory(tmp_path, monkeypatch):
    """Files that a command writes lie in it."""
    monkeypatch.chdir(tmp_path)


def is_sampled(pid):
    """Whether the node has the thread that samples."""
    names = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/comm"):
        try:
            names.append(thread.read_text().strip())
        except OSError:  # It has ended.
            continue
    return "tfos-profile" in names


def weights(profile, frames, name):
    """What the stacks that have a function of this name weigh, and all."""
    found = [
        weight
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True)
        if any(frames[frame]["name"] == name for frame in stack)
    ]
    return sum(found), sum(profile["weights"])


@pytest.mark.long
def test_a_profile_shows_the_hot_function_and_no_values(standalone_spark, tmp_path, leftovers):
    with start(standalone_spark, operate.compute_hotly, tmp_path):
        wait_for_files(tmp_path, "computes")
        done = run_tfos("profile", "worker:1", "--seconds", "2", "--output", "hot.json")
        assert done.returncode == 0, done.stderr
        (tmp_path / "end").touch()
    text = (tmp_path / "hot.json").read_text()
    file = json.loads(text)
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames, main = file["shared"]["frames"], file["profiles"][0]
    assert (main["name"], main["type"], main["unit"]) == ("MainThread", "sampled", "microseconds")
    hot, everything = weights(main, frames, "hot_function")
    assert everything == main["endValue"] > 0
    assert hot > everything / 2
    inside, _ = weights(main, frames, "compute_hotly")
    assert inside >= hot, "with the functions that called it"
    (hot_frame, *_) = [frame for frame in frames if frame["name"] == "hot_function"]
    assert hot_frame["file"] == operate.__file__
    first = operate.hot_function.__code__.co_firstlineno
    assert first < hot_frame["line"] <= first + 6
    assert "no profile has" not in text, "frames have no values"

    head, *_ = done.stdout.splitlines()
    assert head.startswith("worker:1: ") and " steps of " in head
    assert "the program's own Python" in done.stdout
    assert "hot_function  (programs/operate.py, most of it at line" in done.stdout
    assert "MainThread\n" in done.stdout.partition("CPU time")[2]
    assert "hot.json has all stacks" in done.stdout
    assert [path.name for path in tmp_path.glob("*.part")] == []


@pytest.mark.long
def test_a_program_that_waits_for_its_own_dataset_is_told(standalone_spark, tmp_path, leftovers):
    with start(standalone_spark, operate.fit_on_a_slow_dataset, tmp_path):
        wait_for_files(tmp_path, "trains")
        done = run_tfos("profile", "worker:0", "--seconds", "4")
        (tmp_path / "end").touch()
    assert done.returncode == 0, done.stderr
    assert "It mostly waits for its own dataset (tf.data): " in done.stdout
    assert " waiting for its own dataset (tf.data)\n" in done.stdout.partition("counted")[2]


def test_one_profile_at_a_time_which_ctrl_c_ends(standalone_spark, tmp_path, leftovers):
    with start(standalone_spark, operate.wait_on_the_main_thread, tmp_path) as cluster:
        wait_for_files(tmp_path, "waits")
        pid = pid_of(cluster, "worker:0")
        first = follow("profile", "worker:0", *LONG)
        wait_for(lambda: is_sampled(pid), "the first profile")
        second = run_tfos("profile", "worker:0", "--output", "second.json")
        assert second.returncode == 1
        assert f".{first.pid} profiles this node, and only one can at a time" in second.stderr
        assert not (tmp_path / "second.json").exists()
        other = run_tfos("profile", "worker:1", "--seconds", "0.2")
        assert other.returncode == 0, other.stderr
        assert (tmp_path / "worker-1.speedscope.json").exists()
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=BOUND_SECONDS)[0]
        assert first.returncode == 0, said
        assert "wait_in_python" in said, "what there was until then"
        assert "wait_in_python" in (tmp_path / "worker-0.speedscope.json").read_text()
        wait_for(lambda: not is_sampled(pid), "the end of the sampling")
        (tmp_path / "end").touch()


def test_a_node_that_dies_is_told_of(standalone_spark, tmp_path, leftovers):
    with pytest.raises(tfos.errors.TfosError):
        with start(standalone_spark, operate.wait_on_the_main_thread, tmp_path) as cluster:
            wait_for_files(tmp_path, "waits")
            pid = pid_of(cluster, "worker:1")
            profile = follow("profile", "worker:1", *LONG)
            wait_for(lambda: is_sampled(pid), "the profile")
            os.kill(pid, signal.SIGKILL)
            said = profile.communicate(timeout=BOUND_SECONDS)[0]
            assert profile.returncode == 1, said
            assert "the node has ended" in said or "the node is failed" in said
            assert list(tmp_path.glob("*.json*")) == [], "half a profile is none"
            cluster.wait(BOUND_SECONDS)


def test_what_can_not_be_profiled_says_why(standalone_spark, tmp_path, leftovers, monkeypatch):
    with start(
        standalone_spark, operate.wait_on_the_main_thread, tmp_path, parameter_servers=1
    ) as cluster:
        wait_for_files(tmp_path, "waits", 1)
        server = run_tfos("profile", "ps:0")
        assert server.returncode == 1
        assert "the node runs no Python" in server.stderr
        pid = pid_of(cluster, "worker:0")
        os.kill(pid, signal.SIGSTOP)
        stopped = run_tfos("profile", "worker:0")
        os.kill(pid, signal.SIGCONT)
        assert stopped.returncode == 1
        assert "it is frozen (stopped by SIGSTOP or SIGTSTP" in stopped.stderr
        elsewhere = run_tfos("profile", "worker:0", "--output", "/nowhere/x.json")
        assert elsewhere.returncode == 2
        assert "can't write /nowhere/x.json: No such file or directory" in elsewhere.stderr
        folder = run_tfos("profile", "worker:0", "--output", str(tmp_path))
        assert folder.returncode == 2
        assert f"can't write {tmp_path}: it is a folder" in folder.stderr
        assert run_tfos("profile", "worker:9").returncode == 2
        assert run_tfos("profile", "worker:0", "--seconds", "301").returncode == 2
        reader = run_tfos("profile", "worker:0", "--link", link=cluster.page_url)
        assert reader.returncode == 2 and "is for reading only" in reader.stderr
        monkeypatch.setenv("TFOS_RUNTIME_DIR", str(tmp_path / "none"))
        assert run_tfos("profile", "worker:0").returncode == 1
        (tmp_path / "end").touch()


def test_a_node_that_keeps_pythons_lock_is_told_of(standalone_spark, tmp_path, leftovers):
    with pytest.raises(tfos.errors.ClusterStoppedError):
        with start(standalone_spark, operate.hang_in_native_code, tmp_path) as cluster:
            wait_for_files(tmp_path, "hangs")
            for said in ("a thread keeps Python's lock", "an earlier profile still waits"):
                hangs = run_tfos("profile", "worker:0", "--seconds", "0.5")
                assert hangs.returncode == 1
                assert said in hangs.stderr
            assert run_tfos("stop").returncode == 0
            cluster.wait(BOUND_SECONDS)
