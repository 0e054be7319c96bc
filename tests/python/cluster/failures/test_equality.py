"""bench/recovery/equality.py: nodes that are killed and come again have the weights of one machine.
A short run is the same program as the long one, and it sees what is not equal."""

from __future__ import annotations

import collections
import json
import subprocess
import sys

import numpy as np
import pytest

from support.places import ROOT

RECOVERY = ROOT / "bench" / "recovery"
BOUND_SECONDS = 600
UNITS = "128"


@pytest.fixture
def equality(monkeypatch):
    """The program as a module, which has the others as its attributes."""
    monkeypatch.setattr(sys, "path", [str(RECOVERY), *sys.path])
    for name in ("PYTHONPATH", "PYSPARK_PYTHON"):  # It sets them for nodes of its own.
        monkeypatch.setenv(name, "")
    import equality

    return equality


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, str(RECOVERY / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )


@pytest.mark.failure("node killed", "training")
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(BOUND_SECONDS + 240)
@pytest.mark.parametrize(("loop", "cluster", "failures"), [("fit", 1, 2), ("state", 3, 1)])
def test_killed_nodes_end_with_the_bits_of_one_machine(tmp_path, loop, cluster, failures):
    options = ["--failures", failures, "--seed", 3, "--clusters", cluster]
    done = run("equality.py", *options, "--directory", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line[:1] == "{"))
    assert found["killed"] == failures and found["partial"] > 0
    assert found["apart"] == {"bits": True, "ulps": 0, "absolute": 0.0}

    # The same comparison, with a step in which a node is said to have had no part.
    directory = tmp_path / f"cluster-{cluster}"
    step = found["steps"] // 2
    for journal in directory.glob("journal-*"):
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        for line in lines:
            if line["step"] == step:
                line["batches"][line["batches"].index(step)] = 0
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = run("equality_alone.py", directory, "--units", UNITS, "--loop", loop)
    assert done.returncode == 1, done.stdout + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["first that differs"] == step and not found["apart"]["bits"]


def test_a_bit_that_differs_is_seen(equality):
    ours = {"weight": np.ones(3, np.float32), "step": np.array(7)}
    assert equality.equality_alone.difference(ours, dict(ours))["bits"]
    other = {**ours, "weight": np.nextafter(ours["weight"], np.float32(2))}
    found = equality.equality_alone.difference(ours, other)
    assert not found["bits"] and found["ulps"] == 1
    assert not equality.equality_alone.difference(ours, {**ours, "step": np.array(8)})["bits"]
    zero = {"weight": np.zeros(3, np.float32)}
    assert not equality.equality_alone.difference(zero, {"weight": -zero["weight"]})["bits"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"step": 3}, "a step is missing"),
        ({"step": 1}, "comes after step 1"),
        ({"batches": [2, 1, 0]}, "has the batches"),
        ({"batches": [0, 0, 0]}, "has no batch"),
        ({}, "where another node has"),
    ],
)
def test_steps_that_are_not_right_are_found(equality, tmp_path, changed, why):
    def write(rank, lines):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (tmp_path / f"journal-{rank}").write_text(text + '{"step": in part')

    first = {"step": 1, "batches": [1, 1, 0], "digest": "a"}
    second = {"step": 2, "batches": [2, 2, 0], "digest": "b"}
    write(0, [first, second])
    assert equality.steps.committed(tmp_path) == [first, second]
    if changed:
        write(0, [first, {**second, **changed}])
    else:
        write(1, [{**first, "digest": "b"}])
    with pytest.raises(AssertionError, match=why):
        equality.steps.committed(tmp_path)


def test_the_seed_says_which_node_is_killed_when(equality):
    plan = equality.plan_of(17, 3, 5)
    assert plan == equality.plan_of(17, 3, 5) != equality.plan_of(17, 3, 6)
    counts = collections.Counter(failure["victim"] for failure in plan)
    assert sorted(counts.values()) == [5, 6, 6]


def test_the_sums_are_in_the_order_of_the_nodes_of_a_host(equality):
    """Of three numbers, whose sum depends on which of them comes last."""
    numbers = np.float32([1, 2**24, -(2**24)])

    def order(few):
        size = 8 if few else 24 * 1024
        return equality.equality_alone.sum_up([np.full(size, number) for number in numbers])

    assert (order(few=True) == (numbers[0] + numbers[1]) + numbers[2]).all()
    many = order(few=False)
    shares = [many[0], many[len(many) // 2], many[-1]]
    assert shares == [
        (numbers[own] + numbers[first]) + numbers[second]
        for own, first, second in [(0, 1, 2), (1, 0, 2), (2, 0, 1)]
    ]
