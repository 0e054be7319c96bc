"""Results of every form and type become record batches of a declared schema. No Spark job runs."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql import types as sql

from support.feed_nodes import Nodes, datafeed
from support.programs.answers import ANSWERS
from support.spark.sql_types import RESULT_TYPES
from tfos.errors import BadInputError
from tfos.feed.frames import _result_fields
from tfos.feed.results import ResultAssembler, sql_name

ROWS = 40
EPOCH = datetime.datetime(1970, 1, 1)


def answered(schema, answer, rows=ROWS, batch=7, keys=None):
    """What a feed task makes of the answers to the rows 0, 1, ...: a table."""
    if isinstance(schema, str):
        schema = sql.DataType.fromDDL(schema)
    nodes = Nodes(1)
    try:
        feed = datafeed(nodes.servers[0], train=False)
        writer = nodes.writer(0, "inference")
        writer.write_rows(list(range(rows)))
        writer.end()
        nodes.end_feed()
        while not feed.should_stop():
            if ids := feed.next_batch(batch):
                feed.batch_results(answer(ids))
        results = ResultAssembler(0, keys.schema.names if keys else [], _result_fields(schema))
        for held in keys.to_batches(max_chunksize=11) if keys else [rows_without_columns(rows)]:
            results.hold_keys(held)
        batches = []
        while (some := writer.result_batch(block=True)) is not None:
            batches += results.add(some)
        batches += results.rest()
        writer.finish()
    finally:
        nodes.servers[0].close()
    for record_batch in batches:
        record_batch.validate(full=True)
    return pa.Table.from_batches(batches)


def rows_without_columns(rows):
    return pa.RecordBatch.from_pydict({"x": range(rows)}).select([])


FORMS = {
    "number long, text string": (
        [
            "tuples",
            "lists",
            "Rows",
            "dicts",
            "dict of lists",
            "dict of arrays",
            "dict of objects",
            "tensors",
            "rows of different kinds",
        ],
        lambda n: (n, str(n)),
    ),
    "number long": (
        [
            "values",
            "NumPy values",
            "array",
            "tuples of one",
            "dicts of one",
            "column of one",
            "generator",
        ],
        lambda n: (n,),
    ),
    "a double, b double": (["pairs", "lists of numbers", "rows of an array"], lambda n: (n, n / 2)),
    "numbers array<float>": (
        ["arrays", "lists of any length", "lists in a column", "ragged tensor"],
        lambda n: ([n] * (n % 3),),
    ),
    "words array<string>": (
        ["lists of words", "words in tuples", "words in a column"],
        lambda n: ([str(n)] * (n % 3),),
    ),
}


@pytest.mark.parametrize(
    "schema, answer",
    [(schema, answer) for schema, (answers, _) in FORMS.items() for answer in answers],
)
def test_every_form_of_results(spark, schema, answer):
    results = answered(schema, ANSWERS[answer])
    assert results.column_names == sql.DataType.fromDDL(schema).names
    assert [tuple(row.values()) for row in results.to_pylist()] == [
        FORMS[schema][1](n) for n in range(ROWS)
    ]


@pytest.mark.parametrize(
    "declared, answer, expected",
    RESULT_TYPES,
    ids=[f"{declared} of {answer}" for declared, answer, _ in RESULT_TYPES],
)
def test_every_type_of_results(spark, declared, answer, expected):
    results = answered(f"value {declared}", ANSWERS[answer])
    assert (
        sql_name(results.schema.types[0]).replace("decimal128", "decimal").replace(", ", ",")
        == declared
    )
    assert results["value"].to_pylist() == [expected(n) for n in range(ROWS)]


#: (answer, schema, what the error says)
MISFITS = [
    ("values", "value string", "column value: expected string, and the results hold bigint"),
    ("str", "value long", "column value: expected bigint, and the results hold string"),
    ("float", "value int", "column value: expected int, and the results hold double"),
    ("bool", "value int", "expected int, and the results hold boolean"),
    ("values", "value boolean", "expected boolean, and the results hold bigint"),
    ("large", "value int", "expected int, and the results hold bigint (Integer value 10995116"),
    ("large", "value float", "expected float, and the results hold bigint (Integer value"),
    ("huge", "value long", "expected bigint, and the results hold values of int ("),
    ("mixed", "value string", "expected string, and the results hold values of int, str ("),
    ("objects", "value string", "expected string, and the results hold array<bigint>"),
    ("bytes", "value string", "expected string, and the results hold binary ("),
    ("str", "value binary", "expected binary, and the results hold string"),
    ("complex", "value double", "is complex64, which Arrow does not have"),
    ("structs", "value int", "expected int, and the results hold struct<a: bigint>"),
    ("datetime", "value timestamp", "expected timestamp, and the results hold timestamp_ntz"),
    (
        "aware datetime",
        "value timestamp_ntz",
        "expected timestamp_ntz, and the results hold timestamp",
    ),
    ("float", "value decimal(5,1)", "expected decimal(5,1), and the results hold double"),
    ("decimal", "value decimal(5,1)", "expected decimal(5,1), and the results hold decimal128("),
    ("arrays", "value float", "expected float, and the results hold array<float>"),
    (
        "matrices",
        "value array<double>",
        "expected array<double>, and the results hold array<array<double>>",
    ),
    ("float", "value array<double>", "expected array<double>, and the results hold double"),
    ("tuples", "number long", "a result has 2 columns, and the schema declares number bigint"),
    (
        "pairs",
        "a double, b double, c double",
        "a result has 2 columns, and the schema declares a double, b double, c double",
    ),
    ("arrays", "a float, b float", "columns, and the schema declares a float, b float"),
    ("values", "a long, b long", "a result has 1 column, and the schema declares a bigint, b"),
    ("objects", "a long, b long", "a result is {0}, one value, and the schema declares a bigint"),
    (
        "dicts",
        "number long, words string",
        "the results have the columns text, number, and the schema declares number bigint, words",
    ),
    ("dict of arrays", "number long", "the results have the columns text, number, and the schema"),
    ("Rows", "number long, text string, more int", "the results have the columns text, number"),
    ("mixed", "a int, b int", "a result is '0', one value, and the schema declares a int, b int"),
]


@pytest.mark.parametrize(
    "answer, schema, said", MISFITS, ids=[f"{answer} as {schema}" for answer, schema, _ in MISFITS]
)
def test_results_that_do_not_fit_the_schema(spark, answer, schema, said):
    with pytest.raises(BadInputError) as refused:
        answered(schema, ANSWERS[answer], 10)
    assert str(refused.value).startswith("inference, partition 0: ")
    assert said in str(refused.value)


def test_nulls_where_the_schema_allows_none(spark):
    strict = sql.StructType([sql.StructField("value", sql.LongType(), nullable=False)])
    assert answered(strict, ANSWERS["values"]).num_rows == ROWS
    with pytest.raises(
        BadInputError,
        match="partition 0: column value: expected bigint, and the "
        "results hold a null for row 7, where the schema",
    ):
        answered(strict, ANSWERS["one null"], batch=5)
    strict = sql.StructType([sql.StructField("value", sql.ArrayType(sql.LongType(), False))])
    with pytest.raises(BadInputError, match="column value: .* a null in an array, where"):
        answered(strict, ANSWERS["null in an array"])


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_keys_stay_beside_their_results(spark, batch):
    """Whatever the sizes of the batches of either."""
    rows = 300
    keys = pa.table({"k": list(range(rows)), "t": [str(n) for n in range(rows)]})
    for answer in ["values", "array", "now and then None"]:
        table = answered("n long", ANSWERS[answer], rows, batch, keys)
        assert table.column_names == ["k", "t", "n"]
        assert table["k"].to_pylist() == list(range(rows))
        assert all(n in (k, None) for k, n in zip(table["k"].to_pylist(), table["n"].to_pylist()))


def test_small_answers_are_gathered_and_changing_ones_are_not_lost(spark):
    def change(ids):
        return [ids, [float(n) for n in ids], [None for n in ids]][ids[0] // 100 % 3]

    table = answered("n double", change, 1000, 10)
    assert table["n"].num_chunks == 10
    assert table["n"].to_pylist() == [None if n // 100 % 3 == 2 else float(n) for n in range(1000)]
    assert answered("n double", lambda ids: ids, 1000, 10)["n"].num_chunks == 1
