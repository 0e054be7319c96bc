"""Control messages hold only text that every side can read, and no more than a line may hold."""

import json
import os

import pytest

from tfos.base import control_message
from tfos.cluster import launch

MOST_BYTES = 4 << 20


def encode(*args, **fields):
    return json.loads(control_message.encode(*args, **fields).encode("utf-8"))


def test_what_is_no_text_is_made_readable_wherever_it_is():
    name = os.fsdecode(b"caf\xe9")
    message = encode("failed", failure={"message": f"no {name}", "log_tail": [name], name: 1})
    assert message == {
        "type": "failed",
        "failure": {"message": "no caf\\udce9", "log_tail": ["caf\\udce9"], "caf\\udce9": 1},
    }


def test_every_other_text_is_as_it_was():
    fields = {"message": "héllo €😀\n\u2028\0", "count": 3, "share": 0.5, "feed": None, "on": True}
    assert encode("state", **fields) == {"type": "state", **fields}


@pytest.mark.parametrize("character", ["x", "\0", "😀", "\udce9"])
def test_a_long_text_loses_its_middle_and_fits_a_message(character):
    text = "begin" + character * (MOST_BYTES + 1) + "end"
    line = control_message.encode("failed", failure={"message": text, "traceback": text})
    assert len(line.encode()) < MOST_BYTES // 2
    failure = json.loads(line)["failure"]
    for field in ("message", "traceback"):
        assert failure[field].startswith("begin") and failure[field].endswith("end")
        assert "characters are left out" in failure[field]
        assert len(failure[field]) <= control_message.LONGEST_TEXTS[field]


def test_an_environment_travels_byte_by_byte(monkeypatch):
    monkeypatch.setitem(os.environb, b"TFOS_TEST_BYTES", b"caf\xe9 \xc3\xa9 \xff")
    environment = launch._node_environment(keep_omp_num_threads=False, hadoop={})
    name = "TFOS_TEST_BYTES"
    text = encode("x", value=control_message.as_bytes(environment[name]))["value"]
    assert text.encode("latin-1") == b"caf\xe9 \xc3\xa9 \xff"
