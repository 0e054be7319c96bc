#!/usr/bin/env python3
"""Tries tfos with the versions of Spark, TensorFlow, Python and Java that it is made for, and
writes docs/versions.md.

    python tools/matrix/run_matrix.py [--only spark-3.5.7,java-21] [--cases NAME,...] [--page FILE]
    python tools/matrix/run_matrix.py --short [--only spark-3.5.7]

combinations.py says which versions run together. Each gets an environment in build/versions from
PyPI. There matrix_program.py runs the cases twice, with the jar and without. On some versions of
Spark the tests of programs for tensorflowonspark 2.2.5 run, too, and those of Spark Connect. Then
feed_rates.py compares how fast each Spark feeds. `make test-matrix` runs all of it, which takes
hours and downloads 4 GB. The page has the latest report of each combination, from found.json.

--short: the versions of Spark that `make test` does not use, each with a few cases and
the jar, one without it, and of Spark Connect. It writes no page.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import threading
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor

import combinations
import environments
import feed_rates
import matrix_page
from combinations import Combination, Suite
from environments import FOLDER, ROOT

PROGRAM = ROOT / "tools" / "matrix" / "matrix_program.py"
TIMEOUT_SECONDS = 3600
#: JVMs of cases end before it pays to compile the same code better.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: What a run with the jar does: cases that take another way there.
WITH_JAR = (
    "feed_rdd",
    "feed_dataframe",
    "fit",
    "transform",
    "save_tfrecords",
    "old_programs",
    "format_tfrecord",
)
#: What a short run does: cases, with the jar and without it.
SHORT = {True: ("feed_dataframe", "fit"), False: ("format_tfrecord",)}
STEPS = ("cases", *(suite.name for suite in combinations.SUITES), "rates")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default="", help="names of combinations, by commas; empty: all")
    parser.add_argument(
        "--cases", default="", help="cases, by commas; empty: all. Of some, no report is kept"
    )
    parser.add_argument("--steps", default=",".join(STEPS), help="of these, by commas")
    parser.add_argument("--short", action="store_true", help="a few cases, and no page")
    parser.add_argument("--jobs", type=int, default=2, help="how many combinations at a time")
    parser.add_argument("--page", type=environments.Path, default=matrix_page.PAGE)
    options = parser.parse_args()
    try:
        if options.short:
            return short(options)
        return whole(options)
    except (ValueError, environments.EnvironmentMissingError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2


def short(options):
    """A few cases with each Spark but the one of `make test`, or with some of them."""
    chosen = [
        combination
        for combination in combinations.named(options.only)
        if combination in combinations.OF_SPARK and combination.spark != combinations.DEFAULT_SPARK
    ]
    if not chosen:
        raise ValueError(f"--short is for other versions of Spark, and {options.only} is none")

    def run(combination):
        reports = {}
        for with_jar, cases in SHORT.items():
            file = matrix_page.cases_file(combination, with_jar)
            reports[file.stem] = try_cases(combination, with_jar=with_jar, cases=cases)
        for suite in combinations.SUITES:
            if suite.short and combination in suite.combinations:
                file = matrix_page.suite_file(combination, suite)
                reports[file.stem] = try_tests(combination, suite, suite.short)
        return reports

    with ThreadPoolExecutor(options.jobs) as pool:
        reports = {name: report for each in pool.map(run, chosen) for name, report in each.items()}
    failed = matrix_page.failures(reports)
    print("\n".join([*failed, f"{len(failed)} failures of {', '.join(reports)}"]))
    return 1 if failed else 0


def whole(options):
    """Everything of some combinations, or of all, and the page of what was found so far."""
    chosen = combinations.named(options.only)
    steps = options.steps.split(",")
    cases = tuple(filter(None, options.cases.split(",")))

    def run(combination):
        if "cases" in steps:
            for with_jar in (False, True):
                every = WITH_JAR if with_jar else ()
                report = try_cases(combination, with_jar=with_jar, cases=cases or every)
                if not cases:
                    matrix_page.keep(matrix_page.cases_file(combination, with_jar), report)
        for suite in combinations.SUITES:
            if suite.name in steps and combination in suite.combinations:
                report = try_tests(combination, suite, suite.tests)
                matrix_page.keep(matrix_page.suite_file(combination, suite), report)

    with ThreadPoolExecutor(options.jobs) as pool:
        ended = [(combination, pool.submit(run, combination)) for combination in chosen]
    # The others are on the page, whatever became of one.
    failed = [
        f"{combination.title}: {future.exception()}"
        for combination, future in ended
        if future.exception() is not None
    ]
    # One at a time, and with nothing beside it.
    if "rates" in steps:
        for combination in chosen:
            if combination in combinations.OF_SPARK:
                compare_rates(combination)
    reports = matrix_page.found_reports()
    options.page.write_text(matrix_page.page(reports))
    failed += matrix_page.failures(reports)
    print("\n".join(failed) or f"All is as it should be; see {options.page}")
    return 1 if failed else 0


def try_cases(combination: Combination, *, with_jar: bool, cases: tuple[str, ...]):
    """Runs the program; its report. Where it says nothing, it failed as a whole."""
    results = matrix_page.cases_file(combination, with_jar)
    title = f"{combination.title}, {'with' if with_jar else 'without'} the jar"
    command = [PROGRAM, results, "--only", ",".join(cases), *(["--jar"] if with_jar else [])]
    return run(combination, title, command, results)


def try_tests(combination: Combination, suite: Suite, chosen: tuple[str, ...]):
    """Runs chosen tests of a suite; how many passed, and which did not."""
    results = matrix_page.suite_file(combination, suite)
    tests = results.with_suffix(".xml")
    tests.unlink(missing_ok=True)
    command = ["-m", "pytest", "-q", f"--junitxml={tests}", *chosen]
    log = results.with_suffix(".log")
    title = f"{combination.title}, {suite.title}"
    print(f"{title}: {log}", flush=True)
    follow(combination, title, command, log, lines=False)
    if not tests.exists():
        raise ValueError(f"{title}: pytest did not end well: {log}")
    found = list(xml.etree.ElementTree.parse(tests).iter("testcase"))
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in found
        if {"failure", "error", "skipped"} & {child.tag for child in case}
    ]
    report = {
        "date": str(datetime.date.today()),
        "passed": len(found) - len(failed),
        "failed": failed,
    }
    print(f"{title}: {report['passed']} passed, {len(failed)} failed", flush=True)
    return report


def compare_rates(combination: Combination):
    """Compares the rates of this Spark's feed with those of the default one. That it failed is its
    report: the page is written, and those of other versions come next."""
    default = next(one for one in combinations.OF_SPARK if one.spark == combinations.DEFAULT_SPARK)
    try:
        report = feed_rates.compare(
            combination.title,
            environments.python_of(combination),
            environments.python_of(default),
            environments.variables_of(combination),
        )
    except Exception as error:  # whatever has ended it, or kept it from beginning
        report = {"ways": {}, "failed": f"{type(error).__name__}: {error}"}
    report["date"] = str(datetime.date.today())
    matrix_page.keep(matrix_page.rates_file(combination), report)


def run(combination: Combination, title: str, command, results):
    """Runs a program that writes its results to a file, and returns them."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    log = results.with_suffix(".log")
    status = follow(combination, title, command, log, lines=True)
    if not results.exists():
        raise ValueError(f"{title}: the program ended with {status}: {log}")
    return json.loads(results.read_text())


def follow(combination: Combination, title: str, command, log, *, lines: bool) -> int:
    """The exit status of a command of a combination's Python. Its output goes to the log, or with
    ``lines`` what it prints to this program's output."""
    python = environments.python_of(combination)
    variables = environments.variables_of(combination)
    options = f"{variables.get('JDK_JAVA_OPTIONS', '')} {SHORT_LIVED_JVM}".strip()
    variables |= {"JDK_JAVA_OPTIONS": options}
    with log.open("w") as output:
        process = subprocess.Popen(
            [python, *command],
            stdout=subprocess.PIPE if lines else output,
            stderr=output,
            text=True,
            env=variables,
            cwd=ROOT,
        )
        limit = threading.Timer(TIMEOUT_SECONDS, process.kill)
        limit.start()
        try:
            for line in process.stdout or ():
                print(f"{title}: {line}", end="", flush=True)
            return process.wait()
        finally:
            limit.cancel()
            process.kill()


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    sys.exit(main())
