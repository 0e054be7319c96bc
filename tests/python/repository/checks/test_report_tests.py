"""The report of a run of tests: a failure, an unexpected skip or no test at all makes it fail."""

import pytest

import report_tests

CTEST = """<?xml version="1.0"?>
<testsuite name="Linux" tests="3" failures="0" disabled="0" skipped="1">
  <testcase name="Fast.One" classname="Fast.One" time="0.01" status="run"/>
  <testcase name="Slow.One" classname="Slow.One" time="7.5" status="run"/>
  <testcase name="Held.One" classname="Held.One" time="0.01" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] Held.One
../../src/held_test.cc:97: Skipped
{reason}

[  SKIPPED ] Held.One (0 ms)
</system-out>
  </testcase>
</testsuite>
"""
PYTEST = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="2">
  <testcase classname="tests.test_it" name="test_a" time="1.5"/>
  <testcase classname="tests.test_it" name="test_b" time="0.1"><failure message="no">why</failure></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def report(tmp_path, capsys):
    """The report of files with these texts: exit code and lines."""

    def of(*texts):
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"{number}.xml")
            paths[-1].write_text(text)
        code = report_tests.main([str(path) for path in paths])
        return code, capsys.readouterr().out.splitlines()

    return of


def test_a_known_skip_is_shown_with_its_reason(report):
    code, lines = report(CTEST.format(reason="no room for a range above the port"))
    assert code == 0
    assert lines[1].split() == ["7.5", "s", "Slow.One"]
    assert "SKIPPED  Held.One: no room for a range above the port" in lines
    assert lines[-1] == "2 passed, 0 failed, 1 skipped"


def test_an_unknown_skip_fails(report):
    code, lines = report(CTEST.format(reason="it was late"))
    assert code == 1
    assert any(line.startswith("SKIPPED  Held.One: it was late (unexpected") for line in lines)


def test_a_failure_fails_and_is_named(report):
    code, lines = report(CTEST.format(reason="no room for a range above the port"), PYTEST)
    assert code == 1
    assert "FAILED   tests.test_it::test_b" in lines
    assert lines[-1] == "3 passed, 1 failed, 1 skipped"


def test_no_test_at_all_fails(report):
    code, lines = report("<testsuites/>")
    assert code == 1 and lines[-1] == "0 passed, 0 failed, 0 skipped"
    assert report()[0] == 1, "without a file"


def test_a_file_without_a_test_fails_whatever_another_has(report):
    code, lines = report("<testsuite/>", CTEST.format(reason="no room for a range above the port"))
    assert code == 1 and lines[-1] == "2 passed, 0 failed, 1 skipped"
    assert lines[0].startswith("NO TEST has passed of those in ") and lines[0].endswith("/0.xml")
