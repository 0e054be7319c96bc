"""What continuous integration prints at its end, whatever failed before."""

import os
import shutil
import subprocess

import pytest

from support.places import ROOT

#: What `make test` leaves.
RESULTS = """<testsuites><testsuite name="pytest">
  <testcase classname="tests.test_it" name="test_slow" time="7.5"/>
  <testcase classname="tests.test_it" name="test_last" time="0.1">{outcome}</testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def ci(tmp_path):
    """Runs .ci/run in a folder that has nothing else, with a `make` that does what it is told to
    by target."""
    root = tmp_path / "repository"
    tools = ("ci_parts.py", "sanitizer_parts.py", "report_tests.py")
    for name in (".ci/run", *(f"tools/checks/{tool}" for tool in tools)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    commands = tmp_path / "bin"
    commands.mkdir()

    def run(**targets):
        cases = "".join(f"{target}) {script} ;;\n" for target, script in targets.items())
        (commands / "make").write_text(
            f'#!/bin/sh\necho "     1 s  make $1" >>"$TFOS_STEPS"\ncase $1 in\n{cases}esac\n'
        )
        (commands / "make").chmod(0o755)
        path = f"{commands}:{os.environ['PATH']}"
        return subprocess.run(
            [".ci/run"],
            cwd=root,
            env={**os.environ, "PATH": path, "TFOS_CI_PART": "none"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def leave(outcome=""):
        (tmp_path / "results.xml").write_text(RESULTS.format(outcome=outcome))
        return f"mkdir -p build/test-results; cp {tmp_path}/results.xml build/test-results/"

    run.leave = leave
    return run


def test_a_good_run_ends_with_its_slowest_tests(ci):
    done = ci(test=ci.leave())
    assert (done.returncode, done.stderr) == (0, "")
    _, end = done.stdout.split("What each step took:")
    lines = [line.strip() for line in end.splitlines() if line]
    targets = ("lint", "test", "demo", "analyse", "fuzz")
    assert lines[:5] == [f"1 s  make {target}" for target in targets]
    assert lines[5:7] == ["The 20 slowest tests:", "7.5 s  tests.test_it::test_slow"]
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"


def test_a_run_with_a_failed_test_does_so_too_and_fails(ci):
    done = ci(test=f"{ci.leave('<failure/>')}; exit 2")
    assert done.returncode == 1
    _, end = done.stdout.split("What each step took:")
    assert "7.5 s  tests.test_it::test_slow" in end
    assert "FAILED   tests.test_it::test_last" in end
    assert end.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_failed_step_fails_the_run_though_all_tests_have_passed(ci):
    done = ci(test=f"{ci.leave()}; exit 2")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("target", ["demo", "analyse", "fuzz"])
def test_what_fails_beside_the_tests_fails_the_run(ci, target):
    assert ci(test=ci.leave(), **{target: "exit 2"}).returncode == 1


def test_a_run_that_ends_before_the_tests_has_none_to_report(ci):
    done = ci(lint="exit 3")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[-1].strip() == "1 s  make lint"
