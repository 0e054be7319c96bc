"""TFRecords as a data source, on a real Spark: what only the format of the jar has."""

from __future__ import annotations

import re
import subprocess

import pyarrow as pa
import pytest

from support.files.record_source import Source, ids
from support.files.remote_files import visible_in
from support.places import ROOT
from support.spark.errors import SPARK_ERRORS
from tfos import records
from tfos.base import executable


@pytest.fixture(scope="module")
def jvm_source(spark):
    return Source(spark, "jvm")


def test_tables_and_sql(jvm_source, spark, tmp_path):
    spark.sql(
        f"CREATE TABLE days USING tfrecord LOCATION '{tmp_path}/days' PARTITIONED BY (day) "
        "AS SELECT id, id % 2 AS day FROM range(10)"
    )
    try:
        spark.sql("INSERT INTO days SELECT 100, 1")
        assert visible_in(tmp_path / "days") == ["day=0", "day=1"]
        assert spark.sql("SELECT sum(id), count(*) FROM days WHERE day = 1").first() == (125, 6)
        [file] = [
            name for name in spark.sql("SELECT input_file_name() FROM days WHERE id = 100").first()
        ]
        assert "/day=1/part-" in file
    finally:
        spark.sql("DROP TABLE days")
    spark.range(5).write.format("tfrecord").option("index", "true").option(
        "mode", "dropmalformed"
    ).saveAsTable("indexed")
    try:
        spark.sql("INSERT INTO indexed SELECT 7L")
        assert spark.table("indexed").selectExpr("sum(id)").first() == (17,)
    finally:
        spark.sql("DROP TABLE indexed")
    assert spark.sql(f"SELECT count(*) FROM tfrecord.`{tmp_path}/days`").first() == (11,)


def test_what_records_cannot_hold_is_refused_before_spark_deletes(jvm_source, spark, tmp_path):
    jvm_source.write(spark.range(3), tmp_path / "out")
    for frame, options in (
        (spark.sql("SELECT current_date() AS x"), {}),
        (spark.range(1), {"ifExists": "error"}),
        (spark.range(1), {"compression": "lz4"}),
        (spark.range(1), {"index": "true", "compression": "gzip"}),
    ):
        with pytest.raises(SPARK_ERRORS, match="cast it|mode\\(|lz4|uncompressed files only"):
            jvm_source.write(frame, tmp_path / "out", "overwrite", **options)
    assert ids(jvm_source.read(tmp_path / "out")) == [0, 1, 2]


def test_rows_that_spark_keeps_outlive_their_batch(jvm_source, spark, tmp_path):
    """Their values lie in native memory, which each batch has of its own."""
    frame = spark.range(0, 50_000, 1, 1).selectExpr(
        "id",
        "concat('row ', id) AS s",
        "array(concat('a', id), concat('b', id)) AS ss",
        "array(id, -id) AS n",
    )
    jvm_source.write(frame, tmp_path / "out")
    again = jvm_source.read(tmp_path / "out", frame.schema)
    assert again.selectExpr(
        "max(s)", "min(s)", "first(ss)", "max_by(ss, id)", "max(n[0])"
    ).first() == ("row 9999", "row 0", ["a0", "b0"], ["a49999", "b49999"], 49_999)
    assert (
        again.sortWithinPartitions("s").limit(2).collect() == frame.orderBy("s").limit(2).collect()
    )
    kept = again.cache()
    assert kept.count() == 50_000 and kept.exceptAll(frame).isEmpty()
    kept.unpersist()
    assert again.mapInArrow(lambda batches: batches, again.schema).where(
        "s = 'row 777'"
    ).first() == (777, "row 777", ["a777", "b777"], [777, -777])


def executors(spark):
    found = spark._jsc.sc().statusStore().executorList(False)
    return {found.apply(number).id() for number in range(found.size())}


def test_a_task_may_end_while_a_thread_of_it_reads(jvm_source, spark, tmp_path):
    """The one that writes to a script: the task has its row before all rows are written.

    A script that ended early would not do: Spark fails the task if it sees the broken pipe first.
    """
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"text": ["x" * 1_000] * 1_000})] * 50)
    jvm_source.read(path, "text string").createOrReplaceTempView("texts")
    before = executors(spark)
    for _ in range(3):
        found = spark.sql(
            "SELECT TRANSFORM(text) USING 'cat' AS (first string) FROM texts LIMIT 1"
        ).collect()
        assert [row.first for row in found] == ["x" * 1_000]
    assert spark.table("texts").count() == 50_000 and executors(spark) == before


def test_files_that_are_passed_over(jvm_source, spark, tmp_path):
    for name in ("a", "b", "c"):
        records.write(tmp_path / name, [pa.record_batch({"id": range(3)})])
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    frames = {
        option: jvm_source.read(tmp_path, "id long", **{option: "true"})
        for option in ("ignoreMissingFiles", "ignoreCorruptFiles")
    }
    assert frames["ignoreCorruptFiles"].count() == 6
    (tmp_path / "b").unlink()
    with pytest.raises(SPARK_ERRORS, match="/b"):  # Missing is not corrupt.
        frames["ignoreCorruptFiles"].count()
    (tmp_path / "a").unlink()
    assert frames["ignoreMissingFiles"].count() == 3


def test_bad_records_are_counted_on_the_driver(jvm_source, spark, tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"id": range(10)})])
    content = bytearray(path.read_bytes())
    content[14] ^= 1
    path.write_bytes(content)
    context = spark.sparkContext
    context.setJobGroup("bad records", "")
    assert len(ids(jvm_source.read(path, "id long", mode="dropmalformed"))) == 9
    context._jsc.sc().listenerBus().waitUntilEmpty()
    [job] = context.statusTracker().getJobIdsForGroup("bad records")
    [stage] = context.statusTracker().getJobInfo(job).stageIds
    updates = context._jsc.sc().statusStore().lastStageAttempt(stage).accumulatorUpdates()
    values = [
        updates.apply(n).value()
        for n in range(updates.size())
        if updates.apply(n).name() == "tfrecord"
    ]
    assert len(values) == 1
    assert re.match(
        r"1 bad records in 1 files; the first: .*f.tfrecord: record 0 at offset 0: the CRC",
        values[0],
    )


def test_the_page_runs(spark, tmp_path):
    page = (ROOT / "docs/tfrecords.md").read_text()
    # Not of the test's working directory, but of the one that the driver's JVM was started in.
    program = re.sub(
        r'"(\w+\.tfrecords)"',
        rf'"{tmp_path}/\1"',
        re.search(r"(?s)```python\n(.*?)```", page).group(1),
    )
    exec(program, {})
    commands = (
        re.search(r"(?s)```sh\n(.*?)```", page).group(1).replace("tfos ", f"{executable.path()} ")
    )
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "digits.parquet").exists()
