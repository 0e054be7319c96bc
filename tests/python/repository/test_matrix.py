"""The page of what was run with which versions, and the programs that were run."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import combinations
import environments
import feed_rates
import matrix_page
import matrix_program
import run_matrix
from support.places import ROOT

PAGE = (ROOT / "docs/versions.md").read_text()
CASES = {
    "date": "2026-11-23",
    "versions": {"Spark": "3.5.7", "Scala": "2.12.18"},
    "jar": "not asked for",
    "cases": {
        "fit": "ok",
        "transform": "TypeError: no",
        "format_tfrecord": "BadInputError: it needs Spark 4.0 or newer",
    },
}
RATES = {
    "date": "2026-11-23",
    "ways": {
        "jar": {"rows_per_s": 1234.5, "ratio": 0.93, "quartiles": [0.9, 1.0]},
        "Python": {"rows_per_s": 99.6, "ratio": 0.7, "quartiles": [0.6, 0.75]},
    },
}
PROGRAMS = {"date": "2026-11-23", "passed": 90, "failed": ["test_dfutil.test_all"]}
REPORTS = {
    "spark-3.5.7": CASES,
    "spark-3.5.7-jar": CASES | {"jar": "used", "cases": {"fit": "ok"}},
    "spark-3.5.7-rates": RATES,
    "spark-3.5.7-programs": PROGRAMS,
}


@pytest.mark.parametrize(
    ("name", "with_jar", "case", "text", "found"),
    [
        ("spark-3.5.7", False, "fit", "ok", "ok"),
        ("spark-3.5.7", False, "fit", "TypeError: no", "fails"),
        ("spark-3.5.7", True, "ml_pipeline", None, ""),
        ("spark-3.5.7", False, "format_tfrecord", "it needs Spark 4.0 or newer", "refused"),
        ("spark-3.5.7", False, "format_tfrecord", "TypeError: no", "fails"),
        ("spark-3.5.7", False, "format_tfrecord", "ok", "fails"),
        ("spark-3.5.7", True, "format_tfrecord", "it needs Spark 4.0 or newer", "fails"),
        ("spark-4.0.1", False, "format_tfrecord", "it needs Spark 4.0 or newer", "fails"),
    ],
)
def test_only_what_a_version_cannot_have_may_be_refused(name, with_jar, case, text, found):
    assert matrix_page.verdict(name, with_jar, case, text) == found


def test_the_page_shows_each_run():
    page = matrix_page.page(REPORTS)
    assert "| | Spark 3.5.7 | Spark 3.5.7, jar |\n" in page
    assert "| `tfos.ml.Model.transform` | fails | |\n" in page
    assert "| Spark 3.5.7 | 2026-11-23 | 3.5.7 | 2.12.18 | used |\n" in page
    rates = "1,234 | **0.93** (0.90 to 1.00) | 100 | **0.70** (0.60 to 0.75)"
    assert f"| Spark 3.5.7 | 2026-11-23 | {rates} |\n" in page
    assert "| Spark 3.5.7 | 2026-11-23 | 90 | 1 |\n" in page


def test_what_is_not_as_it_should_be_is_named():
    transform, test, rate = matrix_page.failures(REPORTS)
    assert transform == "Spark 3.5.7: transform: TypeError: no"
    assert test == "Spark 3.5.7: test_dfutil.test_all fails"
    assert rate.startswith("Spark 3.5.7 feeds at 0.70 of the rate of 4.1.4 by Python:")


def test_each_case_is_on_the_page():
    assert set(matrix_page.SHOWN) == set(matrix_program.CASES)
    assert set(run_matrix.WITH_JAR) <= set(matrix_program.CASES)
    assert set(run_matrix.SHORT[True]) <= set(run_matrix.WITH_JAR)
    assert set(run_matrix.SHORT[False]) <= set(matrix_program.CASES)
    for case in matrix_program.CASES:
        assert callable(getattr(matrix_program.Cases, case))


def section(page, title):
    """A part of a page, and what it says was not run."""
    text = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return text, " ".join(re.findall(r"^Not (?:run|compared) yet: (.*)\.$", text, re.MULTILINE))


def test_the_page_says_what_was_not_run():
    page = matrix_page.page(REPORTS)
    _, cases = section(page, "TensorFlow, Python and Java")
    assert "Spark 4.0.1" in cases and "Java 21" in cases and "Spark 3.5.7" not in cases
    _, rates = section(page, "How fast they feed")
    assert rates == "Spark 4.0.1, Spark 4.1.4, Spark 4.2.1, Spark 4.3.0"
    without_rates = {name: REPORTS[name] for name in REPORTS if not name.endswith("-rates")}
    assert "How fast they feed" not in matrix_page.page(without_rates)
    _, programs = section(page, "Programs for tensorflowonspark 2.2.5")
    assert programs == "Spark 4.3.0"
    _, connect = section(page, "Spark Connect")
    assert connect == "Spark 4.0.1, Spark 4.2.1, Spark 4.3.0"


def test_the_committed_page_is_made_of_the_reports():
    assert matrix_page.page(matrix_page.found_reports()) == PAGE, "make test-matrix"


def test_a_report_is_kept_with_those_of_other_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix_page, "FOUND", tmp_path / "found.json")
    assert matrix_page.found_reports() == {}
    spark = combinations.named("spark-3.5.7")[0]
    for with_jar in (True, False):
        matrix_page.keep(matrix_page.cases_file(spark, with_jar), CASES)
    matrix_page.keep(matrix_page.rates_file(spark), RATES)
    matrix_page.keep(matrix_page.rates_file(spark), RATES | {"date": "2026-11-24"})
    kept = {"spark-3.5.7": CASES, "spark-3.5.7-jar": CASES}
    kept["spark-3.5.7-rates"] = RATES | {"date": "2026-11-24"}
    assert matrix_page.found_reports() == kept


def test_the_committed_page_has_all_combinations_and_none_fails():
    _, missing = section(PAGE, "TensorFlow, Python and Java")
    for combination in combinations.ALL:
        if combination.title not in missing:
            assert f" {combination.title}, jar |" in PAGE
            assert re.search(rf"^\| {combination.title} \| .* used \|$", PAGE, re.MULTILINE)
    assert "| fails |" not in PAGE


def test_no_version_is_much_slower_without_a_reason_beside_it():
    rates, missing = section(PAGE, "How fast they feed")
    for combination in combinations.OF_SPARK:
        if not rates or combination.title in missing:
            continue
        (row,) = re.findall(rf"^\| {combination.title} \| (.*) \|$", rates, re.MULTILINE)
        ratios = [float(ratio) for ratio in re.findall(r"\*\*(.*?)\*\*", row)]
        for way, ratio in zip(feed_rates.WAYS, ratios, strict=True):
            reason = (combination.name, way) in matrix_page.SLOWER
            assert ratio >= matrix_page.LEAST_RATE or reason


@pytest.mark.parametrize("suite", combinations.SUITES, ids=lambda suite: suite.name)
def test_the_committed_page_has_no_test_that_fails(suite):
    tests, missing = section(PAGE, suite.title[0].upper() + suite.title[1:])
    for combination in suite.combinations:
        row = rf"^\| {combination.title} \| [\d-]+ \| \d\d+ \| 0 \|$"
        assert combination.title in missing or re.search(row, tests, re.MULTILINE)


def test_the_default_spark_is_the_one_of_the_environment():
    assert f"pyspark=={combinations.DEFAULT_SPARK}\n" in environments.REQUIREMENTS.read_text()
    default = next(one for one in combinations.OF_SPARK if one.spark == combinations.DEFAULT_SPARK)
    assert str(environments.python_of(default)) == sys.executable


def test_a_comparison_that_fails_is_on_the_page_and_stops_no_other(tmp_path, monkeypatch, capsys):
    """A process that ends at once, as where a version's Spark does not start."""
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(3)")
    page = tmp_path / "versions.md"
    monkeypatch.setattr(matrix_page, "FOUND", tmp_path / "found.json")
    monkeypatch.setattr(feed_rates, "PROGRAM", program)
    monkeypatch.setattr(environments, "python_of", lambda combination: sys.executable)
    chosen = ["--only", "spark-3.5.7,spark-4.0.1", "--steps", "rates"]
    monkeypatch.setattr(sys, "argv", ["run_matrix.py", *chosen, "--page", str(page)])
    assert run_matrix.main() == 1
    rates, missing = section(page.read_text(), "How fast they feed")
    assert missing == "Spark 4.1.4, Spark 4.2.1, Spark 4.3.0"
    failed = capsys.readouterr().out
    for title in ("Spark 3.5.7", "Spark 4.0.1"):
        assert re.search(rf"^\| {title} \| [\d-]+ \| fails \| \| fails \| \|$", rates, re.MULTILINE)
        ended = "RuntimeError: program.py ended with 3"
        assert f"{title}: the comparison of rates: {ended}\n" in failed


def test_combinations_are_chosen_by_name():
    assert combinations.named("") == combinations.ALL
    chosen = combinations.named("java-21, spark-3.5.7")
    assert [one.title for one in chosen] == ["Java 21", "Spark 3.5.7"]
    with pytest.raises(ValueError, match=r"spark-2: the matrix has spark-3\.5\.7, "):
        combinations.named("spark-2,java-21")


def test_a_python_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(environments.EnvironmentMissingError, match=r"no Python 2\.6 on the PATH"):
        environments._interpreter("2.6")


def test_one_wheel_is_built_for_later_pythons_in_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    environments._wheel.cache_clear()
    pythons = [tmp_path / f"python-{version}" / "bin" / "python" for version in ("3.12", "3.13")]
    for python in pythons:
        python.parent.mkdir(parents=True)
        (python.parent.parent / "done").touch()
    built, installed = [], []

    def pip(command, **_):
        if "wheel" in command:
            built.append(command[0])
            wheel = command[command.index("--wheel-dir") + 1] / "tfos.whl"
            wheel.parent.mkdir()
            wheel.touch()
        else:
            installed.append(command[0])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", pip)
    (combination,) = combinations.named("python-3.13")
    for _ in range(2):
        assert environments.python_of(combination) == pythons[1]
    assert built == pythons[:1]
    assert set(installed) == set(pythons)
    environments._wheel.cache_clear()


def test_a_program_without_results_is_an_error(tmp_path):
    combination = combinations.named("spark-4.1.4")[0]
    results = tmp_path / "results.json"
    with pytest.raises(ValueError, match=r"the program ended with 3: .*results\.log"):
        run_matrix.run(combination, "it", ["-c", "raise SystemExit(3)"], results)
    program = f"open({str(results)!r}, 'w').write('[1]')"
    assert run_matrix.run(combination, "it", ["-c", program], results) == json.loads("[1]")


def test_a_short_run_of_what_has_none_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_matrix.py", "--short", "--only", "java-21"])
    assert run_matrix.main() == 2
    assert "--short is for other versions of Spark, and java-21 is none" in capsys.readouterr().err
