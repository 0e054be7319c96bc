"""What differs between versions of Spark."""

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as sql

from tfos.spark import versions


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("3.5.7", (3, 5)),
        ("4.1.4", (4, 1)),
        ("3.5.1-amzn-0", (3, 5)),
        ("4.0.0.dev1", (4, 0)),
        ("4.1-SNAPSHOT", (4, 1)),
        ("4.10.0", (4, 10)),
    ],
)
def test_versions_of_vendors_have_a_number_too(version, number):
    assert versions.number_of(version) == number


def test_types_that_a_version_lacks_are_left_out():
    assert versions.types_named("LongType", "TypeOfSpark17") == (sql.LongType,)


def test_a_schema_is_read_from_text(spark):
    assert versions.type_from_ddl("a int, b array<float>") == sql.StructType(
        [
            sql.StructField("a", sql.IntegerType()),
            sql.StructField("b", sql.ArrayType(sql.FloatType())),
        ]
    )
    assert versions.type_from_ddl("decimal(8,2)") == sql.DecimalType(8, 2)
    with pytest.raises(PySparkException):
        versions.type_from_ddl("a nothing")


@pytest.mark.parametrize(("version", "used"), [("3.5.7", "context"), ("4.0.0", "session")])
def test_stages_are_saved_by_what_the_version_takes(version, used):
    session = SimpleNamespace(version=version, sparkContext="context")
    found = versions.of_stage_metadata(session)
    assert found == "context" if used == "context" else found is session


@pytest.mark.parametrize(
    ("version", "in_python", "jar"),
    [
        ("3.4.4", False, False),
        ("3.5.7", False, True),
        ("4.0.0", True, True),
        ("4.3.0", True, True),
        ("5.0.0", True, False),
    ],
)
def test_what_a_version_can_do(version, in_python, jar):
    assert versions.has_python_data_sources(version) is in_python
    assert (versions.why_not_spark(version) == "") is jar


@pytest.mark.parametrize(
    ("java", "why"), [("1.8", "Java 1.8"), ("10", "Java 10"), ("11", ""), ("17", ""), ("21", "")]
)
def test_the_jar_needs_java_11(java, why):
    found = versions.why_not_java(java)
    assert (found == "") is (why == "")
    assert found.endswith(why)
