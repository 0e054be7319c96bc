"""docs/versions.md: what was run with which versions, made of the reports in found.json."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import combinations
from combinations import Combination, Suite
from environments import FOLDER, ROOT

PAGE = ROOT / "docs" / "versions.md"
#: The reports of all runs so far, on whatever machine: the whole matrix takes hours.
FOUND = ROOT / "tools" / "matrix" / "found.json"
#: {(name, with the jar, case): part of the message} of what a combination can't have.
REFUSED = {
    ("spark-3.5.7", False, "format_tfrecord"): "needs Spark 4.0 or newer",
    ("java-11", False, "format_tfrecord"): "needs Spark 4.0 or newer",
}
SHOWN = {
    "feed_rdd": "`cluster.train` of an RDD",
    "feed_dataframe": "`cluster.train` of a DataFrame",
    "fit": "`model.fit` on two nodes, `export`",
    "inference": "`cluster.inference`",
    "transform": "`tfos.ml.Model.transform`",
    "ml_pipeline": "`tfos.ml.Estimator` in a pipeline, saved and loaded",
    "instances": "`tfos.parallel.run`",
    "save_tfrecords": "`tfos.save_tfrecords`",
    "old_programs": "`dfutil` of tensorflowonspark",
    "format_tfrecord": '`format("tfrecord")`',
}
#: A version is not to feed slower than so much of the default's rate.
LEAST_RATE = 0.8
#: {(name, "jar" or "Python"): why a version is slower than that}.
SLOWER: dict[tuple[str, str], str] = {}

Report = dict[str, Any]
#: By the file in build/versions without its suffix.
Reports = dict[str, Report]
_keeping = threading.Lock()


def cases_file(combination: Combination, with_jar: bool) -> Path:
    return FOLDER / f"{combination.name}{'-jar' if with_jar else ''}.json"


def last_cases_file(combination: Combination) -> Path:
    """What is there when all cases were run."""
    return cases_file(combination, True)


def suite_file(combination: Combination, suite: Suite) -> Path:
    return FOLDER / f"{combination.name}-{suite.name}.json"


def rates_file(combination: Combination) -> Path:
    return FOLDER / f"{combination.name}-rates.json"


def found_reports() -> Reports:
    """What was found out, in this run or in an earlier one."""
    return json.loads(FOUND.read_text()) if FOUND.exists() else {}


def keep(file: Path, report: Report) -> None:
    """Enters the report that was written to a file in build/versions. Threads: any."""
    with _keeping:
        reports = dict(sorted((found_reports() | {file.stem: report}).items()))
        FOUND.write_text(json.dumps(reports, indent=1) + "\n")


def verdict(name: str, with_jar: bool, case: str, text: str | None) -> str:
    """What the page says: ok, refused where that is right, fails, or "" where nothing was run."""
    if text is None:
        return ""
    expected = REFUSED.get((name, with_jar, case))
    if expected is not None:
        return "refused" if expected in text else "fails"
    return "ok" if text == "ok" else "fails"


def failures(reports: Reports) -> list[str]:
    """A line for each thing that is not as it should be."""
    found = []
    for combination in combinations.ALL:
        for with_jar in (False, True):
            report = reports.get(cases_file(combination, with_jar).stem, {"cases": {}})
            title = f"{combination.title}{', jar' if with_jar else ''}"
            for case, text in report["cases"].items():
                if verdict(combination.name, with_jar, case, text) == "fails":
                    found.append(f"{title}: {case}: {text}")
        for suite in combinations.SUITES:
            tests = reports.get(suite_file(combination, suite).stem, {"failed": []})
            found += [f"{combination.title}: {test} fails" for test in tests["failed"]]
        rates = reports.get(rates_file(combination).stem, {"ways": {}})
        if "failed" in rates:
            found.append(f"{combination.title}: the comparison of rates: {rates['failed']}")
        for way, rate in rates["ways"].items():
            if rate["ratio"] < LEAST_RATE and (combination.name, way) not in SLOWER:
                found.append(
                    f"{combination.title} feeds at {rate['ratio']:.2f} of the rate of "
                    f"{combinations.DEFAULT_SPARK} by {way}: run it again on a quiet machine, and "
                    "write the reason into SLOWER of tools/matrix/matrix_page.py"
                )
    return found


def page(reports: Reports) -> str:
    """The page of docs."""
    paragraphs = [
        "# Versions",
        "What was run with which version of Spark, TensorFlow, Python and Java, each on two "
        "executors of one machine (`local-cluster[2,1,1024]`). `make test-matrix` installs them "
        "from PyPI, runs the cases of "
        "[tools/matrix/matrix_program.py](../tools/matrix/matrix_program.py), and writes this "
        'page. The columns "jar" are with the jar on the class path, where the executors\' JVMs '
        "do the work.",
        "## Spark",
        table_of_cases(reports, combinations.OF_SPARK),
        '"refused": this version lacks the required feature, and the error says what to do '
        "instead. An empty field: not run with the jar, only without it.",
        "## TensorFlow, Python and Java",
        "Those that the columns above do not have, each with one Spark.",
        table_of_cases(reports, combinations.OF_OTHERS),
        *not_run("Not run yet", combinations.ALL, last_cases_file, reports),
        "## What they ran with",
        table_of_versions(reports),
        *rates_paragraphs(reports),
        "## Programs for tensorflowonspark 2.2.5",
        "The tests of [tests/python/facade](../tests/python/facade), which run programs as they "
        "were written for 2.2.5, and those of the [conversion guide](migration.md), with the "
        "oldest and the newest Spark. `make test` runs them with "
        f"{combinations.DEFAULT_SPARK}.",
        *suite_paragraphs(reports, combinations.OLD_PROGRAMS),
        "## Spark Connect",
        "The tests of clusters whose client uses [Spark Connect](connect.md), on a server of each "
        f"Spark. `make test-long` runs them with {combinations.DEFAULT_SPARK}.",
        *suite_paragraphs(reports, combinations.CONNECT),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def not_run(
    words: str,
    chosen: tuple[Combination, ...],
    file_of: Callable[[Combination], Path],
    reports: Reports,
) -> list[str]:
    """A paragraph that names those without results, if there are any."""
    missing = [one.title for one in chosen if file_of(one).stem not in reports]
    return [f"{words}: {', '.join(missing)}."] if missing else []


def table_of_cases(reports: Reports, chosen: tuple[Combination, ...]) -> str:
    columns = [
        (combination, with_jar, reports[cases_file(combination, with_jar).stem])
        for combination in chosen
        for with_jar in (False, True)
        if cases_file(combination, with_jar).stem in reports
    ]
    if not columns:
        return ""
    head = ["", *(f"{one.title}{', jar' if with_jar else ''}" for one, with_jar, _ in columns)]
    rows = []
    for case, title in SHOWN.items():
        found = [
            verdict(one.name, with_jar, case, report["cases"].get(case))
            for one, with_jar, report in columns
        ]
        rows.append([title, *found])
    return table(head, rows)


def table_of_versions(reports: Reports) -> str:
    """A row for each run: when it was, the versions of all parts, and whether the jar was used."""
    rows = []
    head: list[str] = []
    for combination in combinations.ALL:
        report = reports.get(cases_file(combination, False).stem)
        if report is None:
            continue
        head = ["", "run on", *report["versions"], "the jar"]
        with_jar = reports.get(cases_file(combination, True).stem, {"jar": "", **report})
        date = min(report["date"], with_jar["date"])
        rows.append([combination.title, date, *report["versions"].values(), with_jar["jar"]])
    return table(head, rows)


def rates_paragraphs(reports: Reports) -> list[str]:
    """The section on rates; nothing as long as no version was compared."""
    rows = table_of_rates(reports)
    if not rows:
        return []
    return [
        "## How fast they feed",
        rates_text(),
        rows,
        *not_run("Not compared yet", combinations.OF_SPARK, rates_file, reports),
        *(f"{title_of(name)}, {way}: {why}" for (name, way), why in SLOWER.items()),
    ]


def rates_text() -> str:
    return (
        f"[tools/matrix/feed_rates.py](../tools/matrix/feed_rates.py) feeds the same DataFrame "
        f"into two nodes with each Spark and with {combinations.DEFAULT_SPARK}, in turns. Rows "
        "have an array of 784 floats and a number. The machine may do other work at the same "
        "time, which lowers all rates: compare the ratios. A ratio is the median of those of all "
        "turns, with their quartiles in brackets. "
        f"{combinations.DEFAULT_SPARK} against itself shows how exact that is."
    )


def table_of_rates(reports: Reports) -> str:
    """A row for each Spark: the rates of both ways, and what they are to the default's, or that the
    comparison failed."""
    rows = []
    for combination in combinations.OF_SPARK:
        report = reports.get(rates_file(combination).stem)
        if report is None:
            continue
        found = ["fails", ""] * 2 if "failed" in report else []
        for rate in report["ways"].values():
            low, high = rate["quartiles"]
            found += [
                f"{rate['rows_per_s']:,.0f}",
                f"**{rate['ratio']:.2f}** ({low:.2f} to {high:.2f})",
            ]
        rows.append([combination.title, report["date"], *found])
    default = combinations.DEFAULT_SPARK
    head = [
        "",
        "run on",
        "rows/s, jar",
        f"to {default}",
        "rows/s, Python workers",
        f"to {default}",
    ]
    return table(head, rows)


def suite_paragraphs(reports: Reports, suite: Suite) -> list[str]:
    """How many tests passed and failed with each combination, and which have not run them yet."""
    rows = []
    for combination in suite.combinations:
        report = reports.get(suite_file(combination, suite).stem)
        if report is not None:
            failed = str(len(report["failed"]))
            rows.append([combination.title, report["date"], str(report["passed"]), failed])

    def file_of(combination: Combination) -> Path:
        return suite_file(combination, suite)

    return [
        table(["", "run on", "passed", "failed"], rows),
        *not_run("Not run yet", suite.combinations, file_of, reports),
    ]


def title_of(name: str) -> str:
    return next(one.title for one in combinations.ALL if one.name == name)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown; "" without rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)
