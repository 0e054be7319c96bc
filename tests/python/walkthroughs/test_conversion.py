"""The programs of the conversion guide: how little changes, and that what comes out runs."""

from __future__ import annotations

import difflib

import pytest

from support.places import ROOT

pytestmark = pytest.mark.long

CONVERSION = ROOT / "examples/conversion"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """(file of Parquet to train with, pixels and labels that are not in it)"""
    import numpy as np
    import pandas
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = (digits.images.reshape(-1, 64) / 16).astype(np.float32)
    known = len(pixels) * 4 // 5
    path = tmp_path_factory.mktemp("digits") / "digits.parquet"
    pandas.DataFrame({"pixels": list(pixels[:known]), "label": digits.target[:known]}).to_parquet(
        path
    )
    return path, pixels[known:], digits.target[known:]


def changed_lines(name):
    """How many lines of the program were added or put in the place of others, and how many went."""
    before, after = (
        (CONVERSION / f"{name}_{when}.py").read_text().splitlines() for when in ("before", "after")
    )
    marks = [line[0] for line in difflib.ndiff(before, after)]
    return marks.count("+"), marks.count("-")


def test_a_keras_program_changes_in_fewer_than_ten_lines():
    added, removed = changed_lines("keras")
    assert 0 < removed <= added < 10


def test_the_guide_shows_the_programs_as_they_are():
    guide = (ROOT / "docs/migration.md").read_text()
    before, after = (
        (CONVERSION / f"keras_{when}.py").read_text().splitlines() for when in ("before", "after")
    )
    shown = guide.partition("```diff\n")[2].partition("```")[0].splitlines()
    assert [
        line
        for line in difflib.unified_diff(before, after, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ] == [line for line in shown if line.startswith(("-", "+"))]


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_guide_has_the_programs_of_ray_which_are_short(when):
    program = (CONVERSION / f"ray_{when}.py").read_text()
    assert f"```python\n{program}```" in (ROOT / "docs/migration.md").read_text()
    assert len([line for line in program.splitlines() if line.strip()]) < 25


@pytest.mark.parametrize("path", sorted(CONVERSION.glob("*_before.py")), ids=lambda path: path.name)
def test_what_was_before_is_python_without_tfos(path):
    source = path.read_text()
    compile(source, path.name, "exec")
    assert "tfos" not in source


@pytest.mark.parametrize("name", ["keras", "horovod", "ray", "torch"])
def test_what_was_converted_trains(spark, run_program, data, tmp_path, name, leftovers):
    import keras

    path, pixels, labels = data
    run_program(CONVERSION / f"{name}_after.py", path, tmp_path / "digits.keras")
    scores = keras.models.load_model(tmp_path / "digits.keras").predict(pixels, verbose=0)
    assert (scores.argmax(axis=1) == labels).mean() > 0.75


def test_a_program_for_2_2_5_runs_as_it_is(spark, run_program, data, tmp_path, leftovers):
    import tensorflow as tf

    program = CONVERSION / "tensorflowonspark_2.py"
    assert "import tfos" not in program.read_text()
    path, pixels, labels = data
    run_program(program, path, tmp_path / "model")
    (scores,) = (
        tf.saved_model.load(tmp_path / "model")
        .signatures["serving_default"](tf.constant(pixels))
        .values()
    )
    assert (scores.numpy().argmax(axis=1) == labels).mean() > 0.75
