"""``tfos infer`` as it is run: every format, what is refused before anything is written."""

import io
import json
import subprocess

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from support.files.remote_files import names_in, read_bytes
from tfos import records
from tfos.base import executable
from tfos.cli import infer
from tfos.files.access import access_for
from tfos.records import conversion, json_lines

ROWS = 3_000


@pytest.fixture
def run(models, capsys):
    """Runs the command on the model of strings; (exit code, what it printed, standard error)."""

    def command(*arguments, model="text"):
        code = infer.main(["--model", str(models / model), *map(str, arguments)])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return command


@pytest.fixture
def two(run):
    """Likewise on one of two numbers, which fit any format."""
    return lambda *arguments: run("--signature", "two", *arguments, model="others")


@pytest.fixture
def table():
    return pa.table(
        {
            "id": [f"ä{n}" for n in range(ROWS)],
            "x": pa.array(range(ROWS), pa.float32()),
            "y": pa.array([n / 2 for n in range(ROWS)], pa.float32()),
        }
    )


def write_table(path, kind, table):
    access, name = access_for(path)
    if kind == "tfrecord":
        records.write(path, [table])
        return
    with access.create(name) as file:
        if kind == "parquet":
            parquet.write_table(table, file)
        elif kind == "csv":
            csv.write_csv(table, file)
        else:
            file.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())


def read_rows(path, kind):
    if kind == "tfrecord":
        return [row for batch in records.Reader(path) for row in batch.to_pylist()]
    content = io.BytesIO(read_bytes(path))
    if kind == "parquet":
        return parquet.read_table(content).to_pylist()
    if kind == "csv":
        return csv.read_csv(content).to_pylist()
    return [json.loads(line) for line in content.read().splitlines()]


FORMATS = ["tfrecord", "parquet", "csv", "jsonl"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("place", ["local", "hdfs"])
def test_formats(two, table, kind, place, empty_directory):
    root = empty_directory(place)
    write_table(f"{root}/in.{kind}", kind, table)
    code, printed, error = two(
        "--input",
        f"{root}/in.{kind}",
        "--output",
        f"{root}/out",
        "--format",
        kind,
        "--keep",
        "--batch-size",
        256,
    )
    assert code == 0, error
    assert printed == {"file": f"{root}/out", "rows": ROWS}
    rows = read_rows(f"{root}/out", kind)
    assert [row["id"].encode() if isinstance(row["id"], str) else row["id"] for row in rows] == [
        f"ä{n}".encode() for n in range(ROWS)
    ]
    assert [row["difference"] for row in rows] == [n / 2 for n in range(ROWS)]
    assert names_in(root) == [f"in.{kind}", "out"]


def test_small_batches_do_not_make_small_row_groups(two, table, tmp_path, monkeypatch):
    write_table(f"{tmp_path}/in.tfrecord", "tfrecord", table)
    arguments = (
        "--input",
        f"{tmp_path}/in.tfrecord",
        "--batch-size",
        100,
        "--output",
        f"{tmp_path}/out.parquet",
    )
    code, printed, error = two(*arguments)
    assert (code, error) == (0, "") and printed["rows"] == ROWS
    assert parquet.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 1
    monkeypatch.setattr(conversion, "_ROW_GROUP_BYTES", 10_000)
    assert two(*arguments, "--overwrite")[0] == 0
    written = parquet.ParquetFile(tmp_path / "out.parquet")
    assert written.metadata.num_rows == ROWS and 1 < written.metadata.num_row_groups < ROWS / 100


def test_a_dictionary_is_for_what_may_repeat(two, tmp_path):
    # The names of the leaves must be Parquet's: a wrong one would mean no dictionary.
    kept = {
        "word": ["a", "b"],
        "words": [["a"], ["b"]],
        "grid": [[[1]], [[2]]],
        "pair": [{"of": "a"}] * 2,
        "x": pa.array([0.5, 0.5], pa.float32()),
        "y": pa.array([0.25, 0.25], pa.float32()),
    }
    parquet.write_table(pa.table(kept), tmp_path / "in.parquet")
    assert (
        two("--input", f"{tmp_path}/in.parquet", "--output", f"{tmp_path}/out.parquet", "--keep")[0]
        == 0
    )
    written = parquet.ParquetFile(tmp_path / "out.parquet")
    group = written.metadata.row_group(0)
    columns = (group.column(number) for number in range(group.num_columns))
    found = {
        column.path_in_schema.partition(".")[0]: column.has_dictionary_page for column in columns
    }
    answers = {
        field.name for field in written.schema_arrow if pa.types.is_floating(field.type)
    } - set(kept)
    assert answers and found == {name: name not in answers for name in written.schema_arrow.names}


def test_formats_by_name_and_several_files(two, table, tmp_path):
    write_table(f"{tmp_path}/a.parquet", "parquet", table.slice(0, 1000))
    write_table(f"{tmp_path}/b.parquet", "parquet", table.slice(1000))
    for name in ("o.csv", "o.jsonl", "o.tfrecord", "o.tfrecord.gz", "o.parquet.none"):
        assert (
            two(
                "--input",
                f"{tmp_path}/*.parquet",
                "--output",
                f"{tmp_path}/{name}",
                "--output-map",
                "difference=d",
            )[0]
            == 0
        )
    expected = [{"d": n / 2} for n in range(ROWS)]
    assert (
        read_rows(f"{tmp_path}/o.csv", "csv")
        == read_rows(f"{tmp_path}/o.jsonl", "jsonl")
        == expected
    )
    assert read_rows(f"{tmp_path}/o.tfrecord", "tfrecord") == expected
    assert records.verify(f"{tmp_path}/o.tfrecord.gz")["records"] == ROWS
    assert read_rows(f"{tmp_path}/o.parquet.none", "parquet") == expected  # as the input


def test_text_that_looks_like_something_else(run, tmp_path):
    (tmp_path / "in.jsonl").write_text(
        '{"w": "2020-01-01", "p": [1, 2]}\n{"w": "17", "p": [3, 4], "more": 1}'
    )
    code, _, error = run(
        "--input",
        tmp_path / "in.jsonl",
        "--output",
        tmp_path / "out.jsonl",
        "--map",
        "w=word",
        "--map",
        "p=pair",
        "--output-map",
        "upper=u",
        "--output-map",
        "half=h",
        "--keep",
    )
    assert code == 0, error
    assert read_rows(tmp_path / "out.jsonl", "jsonl") == [
        {"w": "2020-01-01", "p": [1, 2], "more": None, "u": "2020-01-01", "h": [0.5, 1.0]},
        {"w": "17", "p": [3, 4], "more": 1, "u": "17", "h": [1.5, 2.0]},
    ]


def test_lists_of_text_in_json(run, tmp_path):
    rows = [{"words": ["a", "2020-01-01"]}, {"words": []}, {"words": ["b"]}]
    write_table(tmp_path / "in.jsonl", "jsonl", pa.Table.from_pylist(rows))
    options = ("--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl")
    ragged = ("--signature", "ragged_join", "--map", "words=words,words_1")
    code, _, error = run(*options, *ragged, model="others")
    assert code == 0, error
    joined = [row["joined"] for row in read_rows(tmp_path / "out.jsonl", "jsonl")]
    assert joined == ["a-2020-01-01", "", "b"]


def test_text_of_csv_stays_as_it_is(tmp_path):
    (tmp_path / "in.csv").write_text("w,x\n007,1\n1.10,2\nTRUE,3\n2020-01-01,4\n")
    sources = [str(tmp_path / "in.csv")]
    schema = conversion.schema_of(sources, "csv", "Example", None, hints={"w": pa.string()})
    (batch,) = conversion.read(sources, "csv", schema, "Example", None)
    assert batch.to_pydict() == {"w": ["007", "1.10", "TRUE", "2020-01-01"], "x": [1, 2, 3, 4]}


def test_whole_numbers_of_csv_may_be_followed_by_others(two, tmp_path):
    for name, rows in (("1", "3,1\n"), ("2", "3,1.5\n")):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{rows}")
    (tmp_path / "3.csv").write_text("x,y\n" + "1,1\n" * 400_000 + "1,0.25\n")
    inputs = [tmp_path / f"{name}.csv" for name in "123"]
    code, printed, error = two("--input", *inputs, "--output", tmp_path / "o.csv")
    assert (code, error) == (0, "") and printed["rows"] == 400_003
    found = [row["difference"] for row in read_rows(tmp_path / "o.csv", "csv")]
    assert (found[:3], found[-1]) == ([2.0, 1.5, 0.0], 0.75)
    # What is kept stays as it is in the first file.
    kept = ("--output", tmp_path / "kept.csv", "--keep")
    code, _, error = two("--input", *inputs, *kept)
    assert code == 1 and error.startswith(f"tfos infer: {inputs[1]} can't be read as csv: ")
    assert error.count("\n") == 1 and not (tmp_path / "kept.csv").exists()


def test_whole_numbers_of_json_may_be_followed_by_others(run, two, tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "_BLOCK_BYTES", 1_000)
    numbers = [*[{"x": 3, "y": 1}] * 1_000, {"x": 3, "y": 1.5}]
    lists = [*[{"x": [1, 2]}] * 1_000, {"x": [1.5, 2.5]}]
    # The last file begins with what is not whole.
    for name, rows in (("1", numbers), ("2", numbers[-1:]), ("lists", lists)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    inputs = [tmp_path / f"{name}.jsonl" for name in "12"]
    code, _, error = two("--input", *inputs, "--output", tmp_path / "o.csv")
    assert (code, error) == (0, "")
    found = [row["difference"] for row in read_rows(tmp_path / "o.csv", "csv")]
    assert found == [2.0] * 1_000 + [1.5] * 2
    options = ("--input", tmp_path / "lists.jsonl", "--output", tmp_path / "lists.csv")
    code, _, error = run(*ONE_NUMBER, *options, model="tf1")
    assert (code, error) == (0, "")
    found = [row["y"] for row in read_rows(tmp_path / "lists.csv", "csv")]
    assert found == [8.0] * 1_000 + [10.5]
    # What is kept stays as it is in the first rows.
    code, _, error = two("--input", *inputs, "--output", tmp_path / "kept.csv", "--keep")
    assert code == 1 and error.startswith(f"tfos infer: {inputs[0]} can't be read as jsonl: ")


def test_keep_keeps_all_columns(two, tmp_path):
    (tmp_path / "1.csv").write_text("x,y\n3,1\n")
    (tmp_path / "2.csv").write_text("x,y,z\n3,1,1\n")
    options = ("--input", tmp_path / "1.csv", tmp_path / "2.csv", "--output", tmp_path / "o.csv")
    code, _, error = two(*options, "--keep")
    assert code == 1 and f"{tmp_path}/2.csv has the column z" in error
    assert two(*options)[0] == 0


def test_ragged_and_records_of_keras(run, models, tmp_path):
    records.write(tmp_path / "r", [pa.record_batch({"ids": pa.array([[1, 2], [3]])})])
    assert (
        run(
            "--input",
            tmp_path / "r",
            "--output",
            tmp_path / "o.csv",
            "--signature",
            "ragged",
            "--map",
            "ids=ids,ids_1",
            model="others",
        )[0]
        == 0
    )
    assert read_rows(tmp_path / "o.csv", "csv") == [{"sum": 3}, {"sum": 3}]
    numbers = np.load(models / "keras.npz")
    records.write(tmp_path / "k", [pa.record_batch({"x": list(numbers["x"])})])
    code, described, _ = run(model="keras")
    (name,), (output,) = described["inputs"], described["outputs"]
    assert code == 0 and described["inputs"][name] == "float32[?, 4]"
    assert (
        run(
            "--input",
            tmp_path / "k",
            "--output",
            tmp_path / "o.parquet",
            "--map",
            f"x={name}",
            "--output-map",
            f"{output}=y",
            model="keras",
        )[0]
        == 0
    )
    got = [row["y"] for row in read_rows(tmp_path / "o.parquet", "parquet")]
    np.testing.assert_allclose(got, numbers["y"], rtol=1e-5, atol=1e-6)


ONE_NUMBER = ("--tags", "serve,old", "--signature", "predict")


def test_an_output_of_one_number_is_a_plain_column_of_csv_alone(run, tmp_path):
    write_table(f"{tmp_path}/in.jsonl", "jsonl", pa.table({"x": [[1.0, 2.0], [0.0, 1.0]]}))
    for kind, expected in [("csv", [8.0, 3.0]), ("jsonl", [[8.0], [3.0]])]:
        output = f"{tmp_path}/o.{kind}"
        options = ("--input", f"{tmp_path}/in.jsonl", "--output", output, "--batch-size", 1)
        code, printed, error = run(*ONE_NUMBER, *options, model="tf1")
        assert code == 0, error
        assert printed["rows"] == 2
        assert [row["y"] for row in read_rows(output, kind)] == expected
    kept = ("--input", f"{tmp_path}/in.jsonl", "--output", f"{tmp_path}/kept.csv", "--keep")
    code, _, error = run(*ONE_NUMBER, *kept, model="tf1")
    assert code == 1 and "CSV has no lists, and x would be one" in error


def test_what_is_refused_leaves_nothing(run, two, table, tmp_path):
    write_table(f"{tmp_path}/in.parquet", "parquet", table)
    options = ("--input", tmp_path / "in.parquet", "--output")

    def refused(message, code, printed, error, expected=1):
        assert code == expected and printed is None and message in error
        assert names_in(tmp_path) == before

    before = names_in(tmp_path)
    refused(
        "input word: expected string[?], found column 'x' of float32",
        *run(*options, tmp_path / "o", "--map", "x=word", "--map", "id=pair"),
    )
    refused("no directory", *two(*options, tmp_path / "none" / "o"))
    refused("is a directory", *two(*options, tmp_path))
    refused("is read and written", *two(*options, tmp_path / "in.parquet", "--overwrite"))
    refused("write it as NAME=NAME", *two(*options, tmp_path / "o", "--map", "x"), expected=2)
    refused(
        "x is there twice",
        *two(*options, tmp_path / "o", "--map", "x=x", "--map", "x=y"),
        expected=2,
    )
    refused("has no signature 'none'", *run(*options, tmp_path / "o", "--signature", "none"))
    refused("--output is missing", *two("--input", tmp_path / "in.parquet"), expected=2)
    (tmp_path / "other.csv").write_text("x\n1\n")
    before = names_in(tmp_path)
    both = ("--input", tmp_path / "in.parquet", tmp_path / "other.csv", "--output", tmp_path / "o")
    refused("has Parquet and", *two(*both))
    pairs = pa.table({"word": ["a"], "pair": [[1, 2]]})
    write_table(f"{tmp_path}/pairs.parquet", "parquet", pairs)
    before = names_in(tmp_path)
    lists = ("--input", tmp_path / "pairs.parquet", "--output-map", "half=h", "--output")
    refused("CSV has no lists, and h would be one", *run(*lists, tmp_path / "o.csv"))
    refused(
        "JSON has no binary columns",
        *run(*lists, tmp_path / "o.jsonl", "--output-map", "bytes=b", "--binary-output", "bytes"),
    )
    # Before a row is read that does not fit.
    nulls = pa.table({"word": pa.nulls(1, pa.string()), "pair": [[1, 2]], "day": pa.nulls(1)})
    write_table(f"{tmp_path}/nulls.parquet", "parquet", nulls)
    before = names_in(tmp_path)
    lists = ("--input", tmp_path / "nulls.parquet", "--output", tmp_path / "o.tfrecord")
    for more, column in ((("--output-map", "outer=m"), "m"), (("--keep",), "day")):
        said = run(*lists, "--output-map", "index=i", *more)
        refused(f"{tmp_path}/o.tfrecord: column '{column}'", *said)
        assert "; or write Parquet or JSON Lines" in said[2]
    # In the middle: a row that does not fit.
    write_table(
        f"{tmp_path}/in.parquet",
        "parquet",
        pa.concat_tables(
            [
                table,
                pa.table(
                    {
                        "id": ["n"],
                        "x": pa.array([None], pa.float32()),
                        "y": pa.array([1.0], pa.float32()),
                    }
                ),
            ]
        ),
    )
    refused(f"column x has a null in row {ROWS}", *two(*options, tmp_path / "o"))


def test_what_is_there_is_replaced_only_when_asked(two, table, tmp_path):
    write_table(f"{tmp_path}/in.parquet", "parquet", table)
    (tmp_path / "o.csv").write_text("precious")
    arguments = ("--input", tmp_path / "in.parquet", "--output", tmp_path / "o.csv")
    code, _, error = two(*arguments)
    assert code == 1 and "is there already; pass --overwrite" in error
    assert (tmp_path / "o.csv").read_text() == "precious"
    assert two(*arguments, "--overwrite")[0] == 0
    assert len(read_rows(tmp_path / "o.csv", "csv")) == ROWS


def test_through_the_executable(models, tmp_path, table):
    write_table(f"{tmp_path}/in.csv", "csv", table)
    command = [executable.path(), "infer", "--model", str(models / "others"), "--signature", "two"]
    done = subprocess.run(
        [*command, "--input", f"{tmp_path}/in.csv", "--output", f"{tmp_path}/out.csv"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"file": f"{tmp_path}/out.csv", "rows": ROWS}
    assert subprocess.run([*command, "--input"], capture_output=True).returncode == 2


def test_a_model_on_hdfs(two, hadoop, models, tmp_path, table, empty_directory):
    root = empty_directory("hdfs")
    from tfos.ml.model import _copy

    _copy(str(models / "tf1"), f"{root}/tf1")
    write_table(f"{tmp_path}/in.jsonl", "jsonl", pa.table({"x": [[1.0, 2.0]]}))
    code = infer.main(
        [
            "--model",
            f"{root}/tf1",
            "--tags",
            "serve,old",
            "--signature",
            "predict",
            "--input",
            f"{tmp_path}/in.jsonl",
            "--output",
            f"{root}/out.jsonl",
        ]
    )
    assert code == 0
    assert read_rows(f"{root}/out.jsonl", "jsonl") == [{"y": [8.0]}]


@pytest.mark.parametrize("option", ["--batch-size", "--threads"])
def test_numbers_that_cannot_be_are_a_wrong_command_line(option, capsys):
    with pytest.raises(SystemExit) as ended:
        infer.main(["--model", "/m", option, "0"])
    assert ended.value.code == 2
    assert f"argument {option}: 0; it must be at least 1" in capsys.readouterr().err
