"""``tfos records`` as it is run: what it prints, and its exit codes."""

import datetime
import decimal
import io
import json
import os
import subprocess
import uuid

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from support.files.remote_files import names_in, read_bytes, write_bytes
from tfos import records
from tfos.base import executable
from tfos.cli import records as records_command
from tfos.errors import BadInputError, TfosError
from tfos.files.access import access_for
from tfos.records import casts, conversion


def run(capsys, *arguments):
    """(exit code, the JSON objects printed, standard error)"""
    code = records_command.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, [json.loads(line) for line in printed.out.splitlines()], printed.err


@pytest.fixture
def table():
    return pa.table(
        {
            "id": range(20),
            "s": [f"ä{n}" for n in range(20)],
            "x": pa.array([n / 2 for n in range(20)], pa.float32()),
        }
    )


@pytest.fixture(params=["local", "hdfs"])
def root(request, empty_directory):
    """An empty directory of the file system."""
    return empty_directory(request.param)


@pytest.fixture
def files(root, table):
    records.write(f"{root}/a.tfrecord", [table.slice(0, 15)])
    records.write(f"{root}/b.tfrecord.gz", [table.slice(15)])
    return root


def test_through_the_executable(files):
    def tfos(*arguments):
        return subprocess.run(
            [executable.path(), "records", *arguments], capture_output=True, text=True
        )

    done = tfos("head", "-n", "2", str(files))
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1]
    assert done.returncode == 0
    assert tfos("--help").stdout.startswith(
        "Show, check, index and convert TFRecord files\nUsage: tfos records"
    )
    assert tfos("cut", "x").returncode == 2
    assert tfos("count", f"{files}/none").returncode == 1
    shell = subprocess.run(
        f"'{executable.path()}' records cat '{files}/*.tfrecord' | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(shell.stdout)["id"] == 0 and not shell.stderr


def test_a_reader_that_is_gone_is_no_failure(files):
    """What it has not read may still be in a buffer when the command is done."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as output:
        done = subprocess.run(
            [executable.path(), "records", "count", str(files)],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_the_terminal_has_no_character_for_is_escaped(files):
    done = subprocess.run(
        [executable.path(), "records", "head", "-n", "1", str(files)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["s"] == "ä0"


def test_cat_head_and_count(capsys, files, table):
    assert run(capsys, "cat", files) == (0, table.to_pylist(), "")
    assert run(capsys, "cat", f"{files}/*.gz")[1] == table.slice(15).to_pylist()
    assert run(capsys, "head", files)[1] == table.slice(0, 10).to_pylist()
    assert run(capsys, "count", files)[1] == [
        {"file": f"{files}/a.tfrecord", "records": 15},
        {"file": f"{files}/b.tfrecord.gz", "records": 5},
    ]


def test_cat_keeps_no_file_open(tmp_path):
    for number in range(100):
        records.write(tmp_path / f"{number:02}", [pa.record_batch({"id": [number]})])
    command = f"ulimit -n 64 && exec {executable.path()} records cat {tmp_path}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (len(done.stdout.splitlines()), done.stderr) == (100, "")


def test_values_that_json_does_not_have(capsys, root):
    records.write(
        f"{root}/f",
        [
            pa.record_batch(
                {
                    "b": [b"\xff"],
                    "f": pa.array([float("nan")], pa.float32()),
                    "l": [[b"\xfe", b"a"]],
                }
            )
        ],
    )
    assert run(capsys, "cat", f"{root}/f")[1] == [
        {"b": {"base64": "/w=="}, "f": "nan", "l": [{"base64": "/g=="}, {"base64": "YQ=="}]}
    ]


def test_schema(capsys, files):
    assert run(capsys, "schema", files)[1] == [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "s", "type": "string", "nullable": False},
        {"name": "x", "type": "float", "nullable": False},
    ]


def test_verify_and_damage(capsys, files):
    code, lines, _ = run(capsys, "verify", files)
    assert code == 0 and [line["records"] for line in lines] == [15, 5]
    path = f"{files}/a.tfrecord"
    content = bytearray(read_bytes(path))
    content[14] ^= 1
    write_bytes(path, content)
    code, lines, error = run(capsys, "verify", files)
    assert code == 1 and [line["bad_records"] for line in lines] == [1, 0]
    assert f"{path}: record 0 at offset 0" in error
    code, lines, error = run(capsys, "cat", path)
    assert code == 1 and not lines and "record 0 at offset 0" in error
    write_bytes(path, content[:-1])
    code, lines, error = run(capsys, "verify", path)
    assert code == 1 and lines[0]["lost"] is True


def test_modes(capsys, files):
    path = f"{files}/a.tfrecord"
    content = bytearray(read_bytes(path))
    content[-1] ^= 1
    write_bytes(path, content)
    code, lines, error = run(capsys, "cat", "--mode", "dropmalformed", path)
    assert code == 1 and len(lines) == 14 and "record 14" in error


def test_index(capsys, files):
    code, lines, _ = run(capsys, "index", f"{files}/a.tfrecord", "--interval", 100)
    assert code == 0 and lines == [{"file": f"{files}/a.tfrecord", "records": 15}]
    assert len(records.split(f"{files}/a.tfrecord", 200)) > 1
    code, _, error = run(capsys, "index", f"{files}/*.gz")
    assert code == 1 and "is compressed" in error
    assert len(run(capsys, "count", files)[1]) == 2  # The index has no records.


def test_convert(capsys, files, table):
    code, lines, _ = run(capsys, "convert", files, "--output", f"{files}/t.parquet")
    assert code == 0 and lines == [{"file": f"{files}/t.parquet", "rows": 20}]
    assert (
        parquet.read_table(io.BytesIO(read_bytes(f"{files}/t.parquet"))).to_pylist()
        == table.to_pylist()
    )
    assert (
        run(capsys, "convert", f"{files}/t.parquet", "--output", f"{files}/again.tfrecord.gz")[0]
        == 0
    )
    assert run(capsys, "cat", f"{files}/again.tfrecord.gz")[1] == table.to_pylist()
    assert (
        run(capsys, "convert", f"{files}/again.tfrecord.gz", "--output", f"{files}/t.csv")[0] == 0
    )
    assert csv.read_csv(io.BytesIO(read_bytes(f"{files}/t.csv"))).to_pylist() == table.to_pylist()
    assert (
        run(capsys, "convert", f"{files}/t.csv", "--output", f"{files}/t", "--to", "tfrecord")[0]
        == 0
    )
    assert run(capsys, "cat", f"{files}/t")[1] == table.to_pylist()


def test_what_can_not_be_converted_leaves_nothing(capsys, root):
    records.write(f"{root}/f", [pa.record_batch({"l": [[1, 2]]})])
    code, _, error = run(capsys, "convert", f"{root}/f", "--output", f"{root}/f.csv")
    assert code == 1 and "CSV has no lists, and l would be one" in error
    write_bytes(f"{root}/broken.parquet", b"no parquet")
    code, _, error = run(capsys, "convert", f"{root}/broken.parquet", "--output", f"{root}/g")
    assert code == 1 and "broken.parquet can't be read as parquet" in error
    table = io.BytesIO()
    parquet.write_table(pa.table({"t": pa.array([1], pa.timestamp("us"))}), table)
    write_bytes(f"{root}/t.parquet", table.getvalue())
    code, _, error = run(capsys, "convert", f"{root}/t.parquet", "--output", f"{root}/g")
    assert code == 1 and "column 't'" in error
    code, _, error = run(capsys, "convert", f"{root}/f", "--output", f"{root}/f")
    assert code == 1 and "is read and written" in error
    access, directory = access_for(root)
    assert [status.path.rpartition("/")[2] for status in access.list(directory)] == [
        "broken.parquet",
        "f",
        "t.parquet",
    ]


def lines_of_json(*rows, big=0):
    """The rows as lines of JSON, behind ``big`` bytes of lines with a: 1."""
    first = json.dumps({"a": 1, "s": "x" * 1000}) + "\n"
    return first * (big // len(first)) + "".join(json.dumps(row) + "\n" for row in rows)


def converted(capsys, root, names, suffix="parquet"):
    """What ``convert`` says of files in ``root``; nothing else may be there afterwards."""
    before = sorted(path.name for path in root.iterdir())
    output = root / f"out.{suffix}"
    code, printed, error = run(capsys, "convert", *(root / n for n in names), "--output", output)
    if code:
        assert not printed and error.count("\n") == 1 and error.startswith("tfos records: ")
        assert sorted(path.name for path in root.iterdir()) == before
    return code, error


def test_convert_keeps_a_key_that_comes_late(capsys, tmp_path):
    first = [{"a": number} for number in range(1_500)]
    batches = [pa.RecordBatch.from_pylist(rows) for rows in (first, [{"a": 1, "b": 2}])]
    records.write(tmp_path / "f", batches)
    assert converted(capsys, tmp_path, ["f"])[0] == 0
    (row,) = parquet.read_table(tmp_path / "out.parquet").slice(1_500).to_pylist()
    assert row == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("csv", ["a\n1\n", "a,b\n1,2\n"]),
        ("jsonl", [lines_of_json({"a": 1}), lines_of_json({"b": 2, "a": 1})]),
        ("jsonl", [lines_of_json({"a": {"n": 1}}), lines_of_json({"a": {"n": 1, "b": 2}})]),
        ("jsonl", [lines_of_json({"a": 1, "b": 2}, big=5 << 20)]),
    ],
)
def test_convert_leaves_no_column_out(capsys, tmp_path, kind, contents):
    names = [f"{number}.{kind}" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_text(content)
    code, error = converted(capsys, tmp_path, names)
    assert code == 1
    column = "a.b" if '"n"' in contents[-1] else "b"
    assert f"{tmp_path}/{names[-1]} has the column {column}, which " in error


def test_convert_leaves_no_column_of_parquet_out(capsys, tmp_path):
    for name, columns in (("1.parquet", {"s": [{"a": 1}]}), ("2.parquet", {"s": [{"a": 1}]})):
        parquet.write_table(pa.table(columns), tmp_path / name)
    assert converted(capsys, tmp_path, ["1.parquet", "2.parquet"])[0] == 0
    (tmp_path / "out.parquet").unlink()
    for more, name in (({"b": [2]}, "b"), ({"s": [{"a": 1, "b": 2}]}, "s.b")):
        parquet.write_table(pa.table({"s": [{"a": 1}], **more}), tmp_path / "2.parquet")
        code, error = converted(capsys, tmp_path, ["1.parquet", "2.parquet"])
        assert code == 1 and f"2.parquet has the column {name}, which {tmp_path}/1" in error


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary(2),
        pa.dictionary(pa.int32(), pa.binary()),
        pa.list_(pa.large_binary()),
        pa.struct([("x", pa.list_(pa.binary()))]),
        pa.map_(pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_bytes_do_not_become_text(capsys, tmp_path, kind, suffix):
    parquet.write_table(pa.schema([("c", kind)]).empty_table(), tmp_path / "f.parquet")
    code, error = converted(capsys, tmp_path, ["f.parquet"], suffix)
    nested = suffix == "csv" and pa.types.is_nested(kind)
    title = {"csv": "CSV", "jsonl": "JSON"}[suffix]
    assert code == 1 and f"{title} has no {'lists' if nested else 'binary columns'}" in error


def test_bytes_of_a_type_that_hides_them_do_not_become_text(tmp_path):
    class Hidden(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.binary(), "hidden")

        def __arrow_ext_serialize__(self):
            return b""

    kind = Hidden()
    batch = pa.record_batch({"c": pa.ExtensionArray.from_storage(kind, pa.array([b"x"]))})
    with pytest.raises(BadInputError, match="JSON has no binary values"):
        conversion.write(
            str(tmp_path / "f"), "jsonl", batch.schema, iter([batch]), "Example", "none"
        )


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("csv", ["a,b\n" + "1,2\n" * 400_000 + "1\n"]),
        ("csv", ["a\n" + "1\n" * 800_000 + "1.5\n"]),
        ("csv", ["a\n1\n", "a\n1.5\n"]),
        ("csv", ["a,a\n1,2\n"]),
        ("jsonl", [lines_of_json({"a": 1.5}, big=5 << 20)]),
    ],
)
def test_a_bad_row_behind_good_ones_is_told_with_its_file(capsys, tmp_path, kind, contents):
    names = [f"{number}.{kind}" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_text(content)
    code, error = converted(capsys, tmp_path, names)
    assert code == 1 and f"{tmp_path}/{names[-1]} can't be read as {kind}: " in error


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("2", "2020-01-01 00:00:00", None),
        ("2", "2020-01-01", None),
        ("2", "true", None),
        ("2", "12:00:00", None),
        ("2", "x", None),
        ("true", "2", None),
        ("2020-01-01", "2", None),
        ("2020-01-01", "2020-01-01 12:00:00", None),
        ("2020-01-01 00:00:00", "2", None),
        ("2", "3", [2, 3]),
        ("2", "3.0", [2, 3]),  # As of a column of whole numbers in which some are missing.
        ("2", "3.5", None),
        ("2.5", "3", [2.5, 3.0]),
        ("x", "007", ["x", "007"]),
        ("2020-01-01", "2021-01-01", [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
    ],
)
def test_values_of_csv_are_what_the_first_file_has(capsys, tmp_path, first, second, kept):
    for name, value in (("1.csv", first), ("2.csv", second)):
        (tmp_path / name).write_text(f"a\n{value}\n")
    code, error = converted(capsys, tmp_path, ["1.csv", "2.csv"])
    if kept is None:
        assert code == 1 and f"{tmp_path}/2.csv " in error
    else:
        table = parquet.read_table(tmp_path / "out.parquet")
        assert (code, table["a"].to_pylist()) == (0, kept)


MOMENT = datetime.datetime(2020, 1, 1)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (pa.array([1]), pa.array([MOMENT]), "a of timestamp[us], and "),
        (pa.array([1]), pa.array([True]), "a of bool, and "),
        (pa.array([True]), pa.array([5]), "a of int64, and "),
        (pa.array(["x"]), pa.array([5]), "a of int64, and "),
        (pa.array([1]), pa.array(["5"]), "a of string, and "),
        (pa.array([1.5], pa.float32()), pa.array([0.1]), "a of double, and "),
        (pa.array([1.5]), pa.array([decimal.Decimal("0.1")]), "a of decimal128(1, 1), and "),
        (pa.array([[1]]), pa.array([[True]]), "a of bool, and "),
        (pa.array([{"n": 1}]), pa.array([{"n": True}]), "a.n of bool, and "),
        (
            pa.array([MOMENT], pa.timestamp("us", "UTC")),
            pa.array([MOMENT]),
            "a of timestamp[us], and ",
        ),
        # Where Arrow itself finds what does not fit.
        (pa.array([1], pa.int8()), pa.array([300]), "can't be read as parquet"),
        (pa.array([1]), pa.array([1.5]), "can't be read as parquet"),
        (pa.array([1.5]), pa.array([(1 << 53) + 1]), "can't be read as parquet"),
        (
            pa.array([MOMENT], pa.timestamp("s")),
            pa.array([MOMENT.replace(microsecond=5)]),
            "can't be read as parquet",
        ),
        (pa.array(["x"]), pa.array([b"\xff"]), "can't be read as parquet"),
        (pa.array([1]), pa.array([1.0]), None),
        (pa.array([1]), pa.array([3], pa.int8()), None),
        (pa.array([1.5]), pa.array([0.5], pa.float32()), None),
        (pa.array(["x"]), pa.array(["y"]).dictionary_encode(), None),
        (pa.array([1]), pa.nulls(1), None),
    ],
)
def test_later_files_of_parquet_are_not_cast_to_other_values(capsys, tmp_path, first, second, says):
    for name, column in (("1.parquet", first), ("2.parquet", second)):
        parquet.write_table(pa.table({"a": column}), tmp_path / name)
    code, error = converted(capsys, tmp_path, ["1.parquet", "2.parquet"])
    if says is None:
        table = parquet.read_table(tmp_path / "out.parquet")
        assert code == 0 and table["a"].to_pylist() == [*first.to_pylist(), *second.to_pylist()]
    else:
        assert code == 1 and f"{tmp_path}/2.parquet " in error and says in error


@pytest.mark.parametrize(("zone", "keeps"), [(None, True), ("UTC", False)])
def test_dates_are_moments_where_there_is_no_zone(zone, keeps):
    assert casts.keeps_values(pa.date32(), pa.timestamp("us", zone)) == keeps


def test_a_damaged_page_is_told_with_its_file(capsys, tmp_path):
    table = pa.table({"a": range(10_000)})
    parquet.write_table(table, tmp_path / "f.parquet", use_dictionary=False)
    content = bytearray((tmp_path / "f.parquet").read_bytes())
    content[100:2_000] = b"\xff" * 1_900
    (tmp_path / "f.parquet").write_bytes(content)
    code, error = converted(capsys, tmp_path, ["f.parquet"])
    assert code == 1 and f"{tmp_path}/f.parquet can't be read as parquet: " in error


@pytest.mark.parametrize("authority", [True, False], ids=["authority", "default"])
def test_a_file_in_the_root_of_a_file_system(capsys, hadoop, empty_directory, table, authority):
    source = f"{empty_directory('hdfs')}/a.tfrecord"
    records.write(source, [table])
    target = f"{hadoop.hdfs if authority else 'hdfs://'}/{uuid.uuid4().hex}.parquet"
    access, path = access_for(target)
    before = names_in(f"{hadoop.hdfs}/")
    try:
        assert run(capsys, "convert", source, "--output", target)[:2] == (
            0,
            [{"file": target, "rows": 20}],
        )
        assert parquet.read_table(io.BytesIO(read_bytes(target))).num_rows == 20
        assert names_in(f"{hadoop.hdfs}/") == sorted([*before, os.path.basename(path)])
    finally:
        access.delete(path)


def test_two_processes_of_one_number_write_files_of_their_own(root):
    target = f"{root}/t.parquet"
    with conversion.replacing(target) as one:
        write_bytes(one, b"one")
        with conversion.replacing(target) as other:
            write_bytes(other, b"other")
        assert read_bytes(one) == b"one" and read_bytes(target) == b"other"
    assert names_in(root) == ["t.parquet"] and read_bytes(target) == b"one"


def test_convert_replaces_a_file_only_when_it_is_told(capsys, files, table):
    target = f"{files}/t.parquet"
    write_bytes(target, b"precious")
    code, lines, error = run(capsys, "convert", f"{files}/a.tfrecord", "--output", target)
    assert code == 1 and not lines
    assert "is there already; pass --overwrite to replace it" in error
    assert read_bytes(target) == b"precious"
    words = ("convert", f"{files}/a.tfrecord", "--overwrite", "--output")
    assert run(capsys, *words, target)[:2] == (0, [{"file": target, "rows": 15}])
    assert parquet.read_table(io.BytesIO(read_bytes(target))).num_rows == 15
    code, _, error = run(capsys, *words, files)
    assert code == 1 and "is a directory" in error
    code, _, error = run(capsys, *words, f"{files}/none/t.parquet")
    assert code == 1 and "there is no directory" in error


@pytest.mark.parametrize(
    "words",
    [
        ("head", "-n", "-1"),
        ("cat", "-n", "x"),
        ("schema", "--sample", "0"),
        ("index", "--interval", "0"),
    ],
)
def test_numbers_that_cannot_be_are_a_wrong_command_line(capsys, tmp_path, words):
    with pytest.raises(SystemExit) as ended:
        records_command.main([*words, str(tmp_path)])
    assert ended.value.code == 2
    assert "at least" in (said := capsys.readouterr().err) or "invalid whole number" in said


def test_an_error_of_tfos_is_said_in_a_line(capsys, monkeypatch, tmp_path):
    def fails(parsed):
        raise TfosError("Hadoop's client did not start")

    monkeypatch.setattr(records_command, "_count", fails)
    assert records_command.main(["count", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "tfos records: Hadoop's client did not start\n"
