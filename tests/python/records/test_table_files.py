"""Tables in files of other formats, as ``tfos records convert`` and ``tfos infer`` read them."""

import csv
import json

import pytest

from tfos.errors import BadInputError
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


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("empty", "value"), [(None, 7), ([], [7]), ([None], ["a"]), ({"b": None}, {"b": 7})]
)
def test_a_key_of_json_whose_value_comes_late_is_named(tmp_path, monkeypatch, empty, value, whole):
    monkeypatch.setattr(conversion, "_JSON_BLOCK_BYTES", 1_000)
    rows = [*[{"n": 1, "a": empty}] * 1_000, {"n": 1, "a": value}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [str(tmp_path / "in.jsonl")]
    schema = conversion.schema_of(sources, "jsonl", "Example", None)
    with pytest.raises(
        BadInputError,
        match=r"in\.jsonl can't be read as jsonl: .* no value of a(\.b)?, so .* first",
    ):
        list(conversion.read(sources, "jsonl", schema, "Example", None, whole=whole))
