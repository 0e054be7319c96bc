"""bench/chaos finds what it is to find, and a case of it runs."""

from __future__ import annotations

import re
import subprocess
import sys
import types

import psutil
import pytest

from support.places import ROOT

CHAOS = ROOT / "bench" / "chaos"
BOUND_SECONDS = 250


@pytest.fixture
def cases(monkeypatch):
    monkeypatch.syspath_prepend(str(CHAOS))
    import cases

    return cases


def faults_of(cases, kind, given, lost=(), results=None, failures=(), replaced=()):
    """What the checks say of rows that were read: {(node, pid): {epoch: ids}}."""
    case = cases.Case(kind, 1, 4, 2, 1, 1, "64k", False, (), ())
    states = {
        node: types.SimpleNamespace(
            state="lost" if node in lost else "done", pid=pid, name=f"worker:{node}"
        )
        for node, pid in given
    }
    ledger = types.SimpleNamespace(nodes={}, lost=replaced, complaint=lambda: None)
    injected = types.SimpleNamespace(
        done=[types.SimpleNamespace(failure=types.SimpleNamespace(what=what)) for what in failures]
    )
    cluster = types.SimpleNamespace(ledger=lambda: ledger)
    return list(cases._faults_of_rows(case, cluster, states, given, results, injected))


@pytest.mark.parametrize(
    ("kind", "given", "lost", "expected"),
    [
        ("fed", {(0, 5): {0: [0, 1]}, (1, 6): {0: [2, 3]}}, (), None),
        ("fed", {(0, 5): {0: [0, 1]}, (1, 6): {0: [3]}}, (), "1 rows miss, [2]"),
        ("fed", {(0, 5): {0: [0, 1, 2]}, (1, 6): {0: [2, 3]}}, (), "share 1 rows, [2]"),
        ("fed", {(0, 5): {0: [0, 1, 2]}, (1, 6): {0: [2, 3]}}, (1,), None),
        ("cached", {(0, 5): {0: [0, 1, 2, 3]}}, (), None),
        ("cached", {(0, 5): {0: [0, 1, 3, 3]}}, (), "1 rows miss, [2]"),
        ("cached", {(0, 5): {0: [0, 1, 2, 3, 3]}}, (), "more than 1 times, [3]"),
        ("asynchronous", {(1, 5): {0: [0]}, (2, 6): {0: [3]}}, (2,), None),
        ("streaming", {(0, 5): {0: [0, 1, 3]}, (1, 6): {0: []}}, (), "1 rows miss, [2]"),
        ("reading", {(0, 5): {0: [0, 1, 2, 3]}, (1, 6): {0: [4, 5, 6, 7]}}, (), None),
        ("reading", {(0, 5): {0: [0, 1, 2, 3]}, (1, 6): {0: [4, 5]}}, (), "node 1 read 2 rows"),
    ],
)
def test_rows_that_are_not_right_are_found(cases, kind, given, lost, expected):
    faults = faults_of(cases, kind, given, lost)
    if expected is None:
        assert faults == []
    else:
        assert expected in faults[0]


def test_what_one_has_read_that_another_came_for_may_be_read_again(cases):
    given = {(0, 5): {0: [0, 1, 2, 3]}, (1, 6): {0: [2]}}
    assert faults_of(cases, "fed", given, replaced={"worker:1"}) == []
    assert faults_of(cases, "fed", given) != []


def test_answers_that_are_not_right_are_found(cases):
    assert faults_of(cases, "inference", {}, results=[0, 2, 4, 6]) == []
    assert faults_of(cases, "inference", {}, results=[0, 2, 6, 4]) != []


@pytest.mark.parametrize(
    ("what", "error", "expected"),
    [
        ("kill of the node", "worker:2 is lost", None),
        ("kill of the node", "something is lost", "names none"),
        ("short stop of the node", "worker:2 is lost", "it was to go on"),
        ("no descriptor for the node", "worker:2 has failed", None),
        ("no descriptor for the agent", "worker:2 has failed", "it was to go on"),
    ],
)
def test_ends_that_are_not_right_are_found(cases, what, error, expected):
    from nemesis import Failure, Injected

    from tfos.errors import NodeFailedError

    case = cases.Case("inference", 1, 4, 2, 1, 1, "64k", False, (), ())
    lost = [2] if what == "kill of the node" else []
    done = [Injected(Failure(what, 2, 1), ["worker:2"], lost)]
    faults = list(
        cases._faults_of_end(case, NodeFailedError(error), types.SimpleNamespace(done=done))
    )
    assert faults == [] if expected is None else expected in faults[0]


def test_the_same_seed_is_the_same_case(cases):
    def case_of(kind, seed):
        return cases.case_of(kind, seed, ["processes", "network"])

    for kind in cases.KINDS:
        assert case_of(kind, 7) == case_of(kind, 7) != case_of(kind, 8)


def test_what_grows_is_found(cases):
    import run

    program = """if True:
        import os, sys
        opened = []
        for line in sys.stdin:
            opened += [os.memfd_create(name) for name in ("one", "another")]
            print("done", flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        samples = run.Samples({"this": psutil.Process(process.pid)})
        for _ in range(9):
            samples.take()
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"
        process.stdin.close()
    # Executors that earlier tests of this process have started are looked at, too.
    found = [fault for fault in samples.faults() if fault.startswith("this ")]
    assert found == ["this grew from 6 to 12 memfds"]


@pytest.fixture
def other_process():
    """A process that says for each line what opening a file, or so many bytes, comes to."""
    program = """if True:
        import sys
        for line in sys.stdin:
            try:
                bytearray(int(line)) if line.strip() else open("/dev/null").close()
                print("done", flush=True)
            except (OSError, MemoryError) as error:
                print(type(error).__name__, flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


@pytest.mark.parametrize(
    ("way", "asked", "expected"),
    [
        ("without_descriptors", "", "OSError"),
        ("without_memory", f"{1 << 30}", "MemoryError"),
    ],
)
def test_what_a_process_may_have_is_limited_for_a_while(cases, other_process, way, asked, expected):
    import ways

    def answer():
        print(asked, file=other_process.stdin, flush=True)
        return other_process.stdout.readline().strip()

    assert answer() == "done"
    with getattr(ways, way)(psutil.Process(other_process.pid)):
        assert answer() == expected
    assert answer() == "done"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.namespaces
@pytest.mark.timeout(BOUND_SECONDS + 30)
@pytest.mark.parametrize(
    ("kind", "failures", "seed", "injected", "read"),
    [
        ("inference", "processes", 3, "short stop of the node 0 at 206 rows", "600"),
        # Another attempt of the task asks for its answers again.
        ("inference", "spark", 3, "Spark's kill of a task 0 at 206 rows", r"\d+"),
        ("streaming", "processes", 5, "short stop of the agent 2 at 350 rows", "600"),
    ],
)
def test_a_case_runs(kind, failures, seed, injected, read):
    options = ["--seconds", "0", "--seed", str(seed), "--kinds", kind]
    done = subprocess.run(
        [sys.executable, CHAOS / "run.py", *options, "--failures", failures],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert re.search(rf"injected: {injected}; {read} read of 600", done.stdout)
    assert f"1 cases from seed {seed}, 0 faults" in done.stdout
