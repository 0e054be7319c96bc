"""Tables in files of other formats, as ``tfos records convert`` and ``tfos infer`` read them."""

import csv
import json
import math

import pytest
from pyarrow import parquet

from tfos.cli import records as records_command
from tfos.errors import BadInputError
from tfos.records import conversion, formats, json_lines


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


def test_a_file_of_json_without_rows_has_none(tmp_path):
    names = [str(tmp_path / f"{number}.json") for number in range(4)]
    for name, content in zip(names, ["", '{"a": 1}\n', " \n", '{"b": 1}\n'], strict=True):
        with open(name, "w") as file:
            file.write(content)
    target = str(tmp_path / "out.jsonl")
    assert conversion.convert(names[:3], target) == 1
    with pytest.raises(BadInputError, match=f"has the columns b, and {names[1]} has a too"):
        conversion.convert(names, target, overwrite=True)
    with pytest.raises(BadInputError, match="there are no rows, so nothing says what the columns"):
        conversion.convert([names[0], names[2]], target, overwrite=True)


def test_csv_has_the_types_of_the_first_file_with_rows(tmp_path):
    names = [str(tmp_path / f"{number}.csv") for number in range(5)]
    contents = ["a,b\n", "a\n1\n2\n", "a\n", "", "b\n1\n"]
    for name, content in zip(names, contents, strict=True):
        with open(name, "w") as file:
            file.write(content)
    target = str(tmp_path / "out.parquet")
    assert conversion.convert(names[:4], target) == 2
    assert parquet.read_table(target).to_pydict() == {"a": [1, 2]}
    with pytest.raises(BadInputError, match=f"has the columns b, and {names[1]} has a too"):
        conversion.convert(names, target, overwrite=True)
    assert conversion.convert([names[0]], target, overwrite=True) == 0
    assert parquet.read_table(target).column_names == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        ([9007199254740993, 18446744073709551615], 9007199254740993),
        ([1.5, -9007199254740993], -9007199254740993),
        ([[0.5], [9007199254740993]], 9007199254740993),
        ([{"b": 9007199254740993}, {"b": 0.5}], 9007199254740993),
        pytest.param([10**400, 1.5], 10**400, id="no float at all"),
        ([9007199254740993, 2**63 - 1], None),
        ([2.0**70, 1e300, math.inf, 9007199254740992], None),
        (["9007199254740993", "1"], None),
    ],
)
def test_a_number_of_json_that_would_lose_digits_is_told(tmp_path, values, lost):
    rows = [{"n": 1, "a": value} for value in values]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [str(tmp_path / "in.jsonl")], str(tmp_path / "out.jsonl")
    if lost is not None:
        with pytest.raises(BadInputError, match=rf"in\.jsonl can't .*column a.* and {lost} would"):
            conversion.convert(*arguments)
        return
    conversion.convert(*arguments)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == rows


def test_text_of_json_stays_text(tmp_path):
    row = {
        "day": "2020-01-01",
        "days": ["2020-01-01 10:00:00", "2020-01-02T10:00:00Z"],
        "in": {"n": 1, "days": [["2020-01-01"]]},
    }
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    conversion.convert([str(tmp_path / "in.jsonl")], str(tmp_path / "b.jsonl"))
    assert json.loads((tmp_path / "b.jsonl").read_text()) == row
    conversion.convert([str(tmp_path / "b.jsonl")], str(tmp_path / "c.parquet"))
    assert parquet.read_table(tmp_path / "c.parquet").to_pylist() == [row]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("empty", "value"), [(None, 7), ([], [7]), ([None], ["a"]), ({"b": None}, {"b": 7})]
)
def test_a_key_of_json_whose_value_comes_late_is_named(tmp_path, monkeypatch, empty, value, whole):
    monkeypatch.setattr(json_lines, "_BLOCK_BYTES", 1_000)
    rows = [*[{"n": 1, "a": empty}] * 1_000, {"n": 1, "a": value}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [str(tmp_path / "in.jsonl")]
    schema = conversion.schema_of(sources, "jsonl", "Example", None)
    with pytest.raises(
        BadInputError,
        match=r"in\.jsonl can't be read as jsonl: .* no value of a(\.b)?, so .* first",
    ):
        list(conversion.read(sources, "jsonl", schema, "Example", None, whole=whole))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "csv"),
        ("part-0.json", "jsonl"),
        ("A.NDJSON", "jsonl"),
        ("hdfs://host.x/d.csv/a.parquet", "parquet"),
        ("a.tfrecord.gz", "tfrecord"),
        ("part-0.gz", "tfrecord"),
        ("a.tfrecord-00003-of-00010", "tfrecord"),
        ("a.csv-00003-of-00010", "csv"),
        ("part-0", "otherwise"),
        ("hdfs://host.csv/a", "otherwise"),
        ("a.tsv", "otherwise"),
    ],
)
def test_the_end_of_a_name_says_the_format(name, kind):
    assert formats.format_of(name, None, "otherwise") == kind
    assert formats.format_of(name, "csv", "otherwise") == "csv"


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("in.csv", "o.csv.gz", "only TFRecords can be compressed, and this name says CSV"),
        ("in.csv", "o.json.deflate", "only TFRecords can be compressed, and this name says JSON"),
        ("in.csv", "o.tsv", ".tsv says no format; give one with --to, or end the name with"),
        ("in.csv", "o.tsv.gz", ".tsv says no format"),
        ("in.csv.gz", "o.parquet", "only TFRecords can be compressed, and this name says CSV"),
    ],
)
def test_a_name_of_another_format_makes_no_tfrecords(capsys, tmp_path, source, target, says):
    (tmp_path / source).write_text("n\n1\n")
    words = ["convert", str(tmp_path / source), "--output", str(tmp_path / target)]
    code, error = records_command.main(words), capsys.readouterr().err
    assert code == 1 and says in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [source]


def test_files_of_different_formats_are_not_one_table(capsys, tmp_path):
    for name, content in (("a.csv", "n\n1\n"), ("b", "n\n2\n"), ("c.json", '{"n": 3}\n')):
        (tmp_path / name).write_text(content)
    words = ["convert", "--output", str(tmp_path / "o.jsonl")]
    assert records_command.main([*words, str(tmp_path / "[a-c]*")]) == 1
    assert capsys.readouterr().err == (
        f"tfos records: by their names, {tmp_path}/a.csv has CSV and {tmp_path}/c.json has JSON; "
        "name files of one format at a time, or give the format of all with --from\n"
    )
    # One whose name says nothing is as the others.
    assert records_command.main([*words, str(tmp_path / "b"), str(tmp_path / "a.csv")]) == 0
    assert (tmp_path / "o.jsonl").read_text() == '{"n": 2}\n{"n": 1}\n'
    (tmp_path / "c.json").write_text("n\n3\n")
    words += [str(tmp_path / "[a-c]*"), "--from", "csv", "--overwrite"]
    assert records_command.main(words) == 0
    assert (tmp_path / "o.jsonl").read_text() == '{"n": 1}\n{"n": 2}\n{"n": 3}\n'


def test_an_output_of_any_name_has_the_format_that_is_told(capsys, tmp_path):
    (tmp_path / "in.csv").write_text("n\n1\n")
    words = ["convert", str(tmp_path / "in.csv"), "--output", str(tmp_path / "o.tsv")]
    assert records_command.main([*words, "--to", "jsonl"]) == 0
    assert (tmp_path / "o.tsv").read_text() == '{"n": 1}\n'


def test_head_shows_a_record_before_one_with_more_values(capsys, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"x": ["a"]}\n' * 2 + '{"x": ["a", "b"]}\n')
    conversion.convert([str(tmp_path / "in.jsonl")], str(tmp_path / "out.tfrecord"))
    assert records_command.main(["head", "-n", "1", str(tmp_path / "out.tfrecord")]) == 0
    assert capsys.readouterr().out == '{"x": ["a"]}\n'
