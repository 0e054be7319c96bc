"""The page of what was run with which version of Spark, and the program that was run."""

from __future__ import annotations

import re

import pytest

import spark_matrix
import spark_matrix_program
from support.places import ROOT

REPORT = {
    "date": "2026-11-23",
    "versions": {"Spark": "3.5.7", "Scala": "2.12.18"},
    "jar": "not asked for",
    "cases": {
        "fit": "ok",
        "transform": "TypeError: no",
        "format_tfrecord": "BadInputError: it needs Spark 4.0 or newer",
    },
}


@pytest.mark.parametrize(
    ("name", "case", "text", "found"),
    [
        ("3.5.7", "fit", "ok", "ok"),
        ("3.5.7", "fit", "TypeError: no", "fails"),
        ("3.5.7 jar", "ml_pipeline", None, ""),
        ("3.5.7", "format_tfrecord", "BadInputError: needs Spark 4.0 or newer", "refused"),
        ("3.5.7", "format_tfrecord", "TypeError: no", "fails"),
        ("3.5.7", "format_tfrecord", "ok", "fails"),
        ("3.5.7 jar", "format_tfrecord", "BadInputError: needs Spark 4.0 or newer", "fails"),
        ("4.0.1", "format_tfrecord", "BadInputError: needs Spark 4.0 or newer", "fails"),
    ],
)
def test_only_what_a_version_cannot_have_may_be_refused(name, case, text, found):
    assert spark_matrix.verdict(name, case, text) == found


def test_the_page_has_a_column_for_each_run():
    with_jar = REPORT | {"jar": "used", "cases": {"fit": "ok"}}
    page = spark_matrix.page({"3.5.7": REPORT, "3.5.7 jar": with_jar})
    assert "| | 3.5.7 | 3.5.7, jar |\n" in page
    assert "| `tfos.ml.Model.transform` | fails | |\n" in page
    assert "| 2026-11-23 | 3.5.7 | 2.12.18 |\n" in page
    assert "| 3.5.7 | used |\n" in page


def test_each_case_is_on_the_page():
    assert set(spark_matrix.SHOWN) == set(spark_matrix_program.CASES)
    assert set(spark_matrix.WITH_JAR) <= set(spark_matrix_program.CASES)
    for case in spark_matrix_program.CASES:
        assert callable(getattr(spark_matrix_program.Cases, case))


def test_the_page_has_all_versions_and_none_fails():
    page = (ROOT / "docs/versions.md").read_text()
    for version in spark_matrix.VERSIONS:
        assert f"| {version}, jar |" in page
        assert re.search(rf"^\| {re.escape(version)} \| used \|$", page, re.MULTILINE)
    assert "fails" not in page
