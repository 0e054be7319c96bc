"""What commands print of files of others: a terminal must not obey it."""

import json

import pyarrow as pa
import pytest

from tfos import records
from tfos.cli import records as records_command
from tfos.cli.arguments import complain

NAME = "k\x1b]0;title\x07\u009b2J\x7f"


def test_an_error_has_no_control_characters(tmp_path, capsys):
    records.write(tmp_path / "a", [pa.record_batch({NAME: [1]})])
    records.write(tmp_path / "b", [pa.record_batch({NAME: ["text"]})])
    assert records_command.main(["schema", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    error = capsys.readouterr().err
    assert "k ]0;title  2J " in error
    assert error.replace("\n", "").isprintable()


def test_the_lines_of_an_error_stay(capsys):
    complain("records", ValueError("one\r\n\ttwo"))
    assert capsys.readouterr().err == "tfos records: one \n two\n"


@pytest.mark.parametrize("value", [NAME, "ä\u00a0€"])
def test_json_has_them_escaped(tmp_path, capsys, value):
    records.write(tmp_path / "a", [pa.record_batch({"s": [value]})])
    assert records_command.main(["cat", str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"s": value}
    assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in printed.rstrip("\n"))
