"""What each run of CI takes of the checks and of the long tests: each part gets its turn."""

import hashlib
import os
import re
import shlex
import subprocess

import pytest

import ci_parts
import combinations
import sanitizer_parts
from support.places import ROOT

PARTS = ci_parts.parts_of_ci()
HASHES = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(1000)]


def run(*command, **environment):
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_make_fuzz_runs_each_fuzz_target():
    """It runs those that have a folder in fuzz/corpus."""
    built = re.findall(
        r"^tfos_fuzzer\(\w+/(\w+)", (ROOT / "fuzz/CMakeLists.txt").read_text(), re.MULTILINE
    )
    assert sorted(built) == sorted(path.name for path in (ROOT / "fuzz/corpus").iterdir())
    assert sorted(built) == sorted(path.stem for path in (ROOT / "fuzz").glob("*/*_fuzz.cc"))


def test_each_part_gets_its_turn():
    chosen = {ci_parts.choose(commit).name for commit in HASHES}
    assert chosen == {part.name for part in PARTS}
    assert len({part.command for part in PARTS}) == len(PARTS)


def test_a_commit_is_what_git_knows():
    head = run("git", "rev-parse", "HEAD").stdout.strip()
    # Not HEAD, which may be another commit by now.
    done = run("tools/checks/ci_parts.py", "choose", f"{head}^0")
    assert done.stdout.strip() == ci_parts.choose(head).name
    refused = run("tools/checks/ci_parts.py", "choose", "no-such-commit")
    assert refused.returncode == 2
    assert "Git knows no commit 'no-such-commit' here" in refused.stderr


def test_a_commit_chooses_the_same_part_by_the_beginning_of_its_hash():
    commit = "7be89b61d3f0000000000000000000000000000a"
    assert ci_parts.choose(commit) == ci_parts.choose(commit[:8])


def test_each_part_leaves_time_for_lint_and_test():
    assert {part.name for part in PARTS} == set(ci_parts.MINUTES)
    assert max(part.minutes for part in PARTS) <= ci_parts.LONGEST


def test_the_command_of_each_part_is_one_that_make_knows():
    for part in PARTS:
        # `make test` runs this, and a make within a make says which directory it enters.
        done = run("make", "--no-print-directory", "--dry-run", *shlex.split(part.command)[1:])
        assert done.returncode == 0, done.stderr
        kind, _, name = part.name.partition("/")
        if part.name.startswith("spark-"):
            assert f"run_matrix.py --short --only {part.name}" in done.stdout
        if kind in sanitizer_parts.SANITIZERS:
            assert done.stdout.split() == ["tools/sanitize.sh", kind, f'"{name}"']


def test_every_other_commit_takes_long_tests():
    taken = [ci_parts.choose(commit).name.startswith("long/") for commit in HASHES]
    assert 400 < taken.count(True) < 600


def test_the_parts_of_the_long_tests_hold_all_of_them():
    """Each folder is in one part, and the last one leaves out what the others have."""
    chosen = [
        re.fullmatch(r"make test-long LONG_TESTS='(.*)'", part.command)[1].split()
        for part in ci_parts.long_tests()
    ]
    *parts, others = chosen
    folders = [folder for part in parts for folder in part]
    assert len(set(folders)) == len(folders)
    assert all((ROOT / folder).is_dir() for folder in folders)
    assert others == ["tests/python", *(f"--ignore={folder}" for folder in folders)]


def test_each_other_spark_is_a_part():
    others = {
        each.name for each in combinations.OF_SPARK if each.spark != combinations.DEFAULT_SPARK
    }
    assert {part.name for part in PARTS if part.name.startswith("spark-")} == others


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (["tools/checks/ci_parts.py", "command", "nosuch"], {}),
        ([".ci/run"], {"TFOS_CI_PART": "nosuch"}),
    ],
    ids=lambda value: " ".join(value),
)
def test_an_unknown_part_is_refused_before_anything_runs(command, environment):
    done = run(*command, **environment)
    assert done.returncode == 2
    assert "there is no part 'nosuch'" in done.stderr
    assert done.stdout == ""
