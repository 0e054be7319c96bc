"""Fails a test that is skipped for a reason that is not among :data:`MAY_BE_MISSING`.

A skipped test tests nothing, and a run full of them looks as green as one that tested all. On a
machine that lacks more, set ``TFOS_TESTS_MAY_SKIP``.
"""

from __future__ import annotations

import os
import re

import pytest

#: With this variable set every skip is allowed.
MAY_SKIP_VARIABLE = "TFOS_TESTS_MAY_SKIP"

#: {what the reason of a skip begins with: why the test can't run on a machine that we test on}.
MAY_BE_MISSING = {
    r"PyTorch takes gigabytes": "make test-backends fetches it, and runs these tests",
    r"this kernel takes connections however full": "a sandbox's kernel has no limit that could be reached",
    r"(network|UTS) namespaces can't be (made|joined) here": "they need root, or user namespaces, which containers may lack",
}


def is_allowed(reason: str) -> bool:
    """Whether a test may be skipped for that reason."""
    text = reason.removeprefix("Skipped: ")
    return MAY_SKIP_VARIABLE in os.environ or any(re.match(known, text) for known in MAY_BE_MISSING)


def _judge(report):
    if not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not is_allowed(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"{reason}\nNo test is skipped for that (tests/python/support/reporting/skips.py). Install what it "
            f"lacks (make test does), or set {MAY_SKIP_VARIABLE}=1 to test the rest."
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _judge((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _judge((yield))
