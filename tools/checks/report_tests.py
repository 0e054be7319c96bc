#!/usr/bin/env python3
"""Says what a run of tests did, from the files (JUnit's XML) that ctest and pytest write:

    tools/checks/report_tests.py FILE...

Prints the slowest tests, each skip with its reason, and last how many passed, failed and
were skipped.
Fails when a test failed, when none passed in one of the files, and when a C++ test was skipped for
a reason that is not in MAY_BE_MISSING. (tests/python/support/reporting/skips.py has those of
Python's tests, and fails them itself.)
"""

from __future__ import annotations

import dataclasses
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

SLOWEST = 20
#: {what the reason of a skipped C++ test begins with: why}.
MAY_BE_MISSING = {
    r"no room for a range above the port": "the kernel gave one of the last ports there are",
    r"process \d+ runs these tests in a JVM": "the test is about processes below no JVM",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A test: its name, how long it took, how it ended ("passed", "failed", "skipped"), and why."""

    name: str
    seconds: float
    outcome: str
    reason: str = ""
    by_ctest: bool = False


def cases_of(path: str) -> list[Case]:
    """The tests in one file."""
    root = ElementTree.parse(path).getroot()
    by_ctest = root.tag == "testsuite"
    cases = []
    for element in root.iter("testcase"):
        name = element.get("name", "")
        if not by_ctest:
            name = f"{element.get('classname', '')}::{name}"
        outcome, reason = "passed", ""
        if element.find("failure") is not None or element.find("error") is not None:
            outcome = "failed"
        elif (skipped := element.find("skipped")) is not None:
            outcome, reason = "skipped", skipped.get("message", "")
            if by_ctest:
                reason = _reason_of_googletest(element.findtext("system-out") or "") or reason
        elif by_ctest and element.get("status") not in (None, "run"):
            outcome, reason = "skipped", element.get("status", "")
        cases.append(Case(name, float(element.get("time") or 0), outcome, reason, by_ctest))
    return cases


def _reason_of_googletest(output: str) -> str:
    """What GTEST_SKIP() was given: the lines behind `FILE:LINE: Skipped`."""
    found = re.search(r": Skipped\n(.*?)\n\s*\n?\[", output, re.DOTALL)
    return " ".join(found.group(1).split()) if found else ""


def report(cases: Sequence[Case]) -> tuple[list[str], bool]:
    """The lines to print, and whether all is well."""
    lines = [f"The {SLOWEST} slowest tests:"]
    lines += [
        f"{case.seconds:8.1f} s  {case.name}"
        for case in sorted(cases, key=lambda case: -case.seconds)[:SLOWEST]
    ]
    unexpected = False
    for case in cases:
        if case.outcome == "failed":
            lines.append(f"FAILED   {case.name}")
        if case.outcome == "skipped":
            known = not case.by_ctest or any(re.match(text, case.reason) for text in MAY_BE_MISSING)
            unexpected = unexpected or not known
            lines.append(
                f"SKIPPED  {case.name}: {case.reason or 'no reason'}"
                f"{'' if known else ' (unexpected: tools/checks/report_tests.py)'}"
            )
    count = {
        outcome: sum(case.outcome == outcome for case in cases)
        for outcome in ("passed", "failed", "skipped")
    }
    lines.append(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return lines, not unexpected and count["failed"] == 0


def main(paths: Sequence[str]) -> int:
    cases = {path: cases_of(path) for path in paths}
    idle = [path for path in paths if all(case.outcome != "passed" for case in cases[path])]
    lines, well = report([case for path in paths for case in cases[path]])
    print("\n".join([*(f"NO TEST has passed of those in {path}" for path in idle), *lines]))
    return 0 if well and paths and not idle else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
