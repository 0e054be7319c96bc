"""Tables in files of other formats, as ``tfos records convert`` and ``tfos infer`` read them."""

import csv

import pytest

from tfos.records import conversion


@pytest.mark.parametrize("columns", [1, 2])
def test_values_of_csv_may_have_line_breaks(tmp_path, columns):
    """Arrow reads blocks of 1 MiB, and there are some."""
    rows = [(f"{n}: line one\nline two, of 'two'\n", str(n))[:columns] for n in range(60_000)]
    names = ("text", "number")[:columns]
    with open(tmp_path / "in.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    sources = [str(tmp_path / "in.csv")]
    schema = conversion.schema_of(sources, "csv", "Example", None)
    found = [
        tuple(map(str, row.values()))
        for batch in conversion.read(sources, "csv", schema, "Example", None)
        for row in batch.to_pylist()
    ]
    assert (len(found), found == rows) == (len(rows), True)
