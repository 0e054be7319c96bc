"""A skip that nobody has named fails a run of these tests."""

import os
import subprocess
import sys

import pytest

from support.places import ROOT
from support.reporting import skips

CONFTEST = (
    "from support.reporting.skips import pytest_make_collect_report, pytest_runtest_makereport\n"
)


@pytest.fixture
def run(tmp_path):
    """Runs tests that a text has with the hooks of these tests: exit code and output."""

    def run_pytest(text, *arguments, **environment):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(f"import pytest\n{text}\n")
        environ = {
            name: value for name, value in os.environ.items() if name != skips.MAY_SKIP_VARIABLE
        }
        environ |= {"PYTHONPATH": str(ROOT / "tests" / "python"), **environment}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-ra",
                "-p",
                "no:cacheprovider",
                *arguments,
                str(tmp_path),
            ],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run_pytest


@pytest.mark.parametrize(
    "text",
    [
        "def test_it():\n    pytest.importorskip('no_such_module')",
        "pytest.importorskip('no_such_module')\ndef test_it(): pass",
        "@pytest.mark.skip(reason='later')\ndef test_it(): pass",
        "@pytest.fixture\ndef it():\n    pytest.skip('not here')\ndef test_it(it): pass",
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-n", "1")])
def test_an_unnamed_reason_fails(run, text, arguments):
    code, output = run(text, *arguments)
    assert code in (1, 2), output
    assert skips.MAY_SKIP_VARIABLE in output


def test_it_is_allowed_to_whoever_asks_for_it(run):
    code, output = run("def test_it():\n    pytest.skip('later')", **{skips.MAY_SKIP_VARIABLE: "1"})
    assert code == 0 and "1 skipped" in output and "later" in output


def test_a_named_reason_is_shown(run):
    code, output = run(
        'def test_it():\n    pytest.skip("network namespaces can\'t be made here: no right")'
    )
    assert code == 0 and "1 skipped" in output and "no right" in output


def test_what_is_expected_to_fail_may(run):
    code, output = run("@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert False")
    assert code == 0 and "1 xfailed" in output
