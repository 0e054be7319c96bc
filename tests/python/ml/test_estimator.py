"""What ``tfos.ml.Estimator`` selects, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tfos
from support.spark.fake import FakeSparkContext, fake_session
from tfos import ml
from tfos.errors import BadInputError


class Started(Exception):
    """The cluster would start now."""


def test_columns_with_dots_are_columns(monkeypatch, tmp_path):
    selected = []
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: selected.extend(names))

    def run(*arguments, **keywords):
        raise Started

    monkeypatch.setattr(tfos, "run", run)
    estimator = ml.Estimator(
        build=print,
        modelDir=str(tmp_path),
        inputMapping={"a.b": "x", "c`d": "y", "e": "z"},
        labelCol="label.of it",
    )
    with pytest.raises(Started):
        estimator._fit(frame)
    assert selected == ["`a.b`", "`c``d`", "`e`", "`label.of it`"]


@pytest.mark.parametrize("pair", [("x", "x_1"), ["x", "x_1"]], ids=["made", "loaded"])
def test_a_pair_beside_another_column_is_refused_before_anything_runs(tmp_path, pair):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    estimator = ml.Estimator(
        build=print, modelDir=str(tmp_path), inputMapping={"words": pair, "n": "n"}
    )
    with pytest.raises(BadInputError, match="pairs of inputs for the column words"):
        estimator._fit(SimpleNamespace(sparkSession=session))


def test_callbacks_go_with_a_builder_alone():
    with pytest.raises(BadInputError, match="callbacks= goes with build="):
        ml.Estimator(train=print, callbacks=print)


@pytest.mark.parametrize("nodes", [(2, 4), [2, 4]], ids=["made", "loaded"])
def test_nodes_may_be_lost_down_to_the_least(monkeypatch, tmp_path, nodes):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: frame)
    asked = {}

    def run(*arguments, **keywords):
        asked.update(keywords)
        raise Started

    monkeypatch.setattr(tfos, "run", run)
    estimator = ml.Estimator(
        build=print, modelDir=str(tmp_path), inputMapping={"x": "x"}, nodes=nodes
    )
    with pytest.raises(Started):
        estimator._fit(frame)
    assert asked["nodes"] == (2, 4)


@pytest.mark.parametrize("nodes", [(1, 2, 3), "two", (1, "two")])
def test_other_nodes_are_refused(nodes):
    with pytest.raises(TypeError, match="nodes"):
        ml.Estimator(build=print).setNodes(nodes)


class Fed:
    """A cluster that keeps how it was to be fed."""

    def __init__(self):
        self.options = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def train(self, frame, **options):
        self.options = options
        raise Started


@pytest.mark.parametrize("settings", [{}, {"max_lost_nodes": 1}], ids=["all", "some"])
def test_rows_are_kept_for_further_epochs(monkeypatch, tmp_path, settings):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: frame)
    cluster = Fed()
    monkeypatch.setattr(tfos, "run", lambda *arguments, **keywords: cluster)
    estimator = ml.Estimator(
        train=print,
        settings=settings,
        modelDir=str(tmp_path),
        inputMapping={"x": "x"},
        labelCol="y",
        epochs=2,
    )
    with pytest.raises(Started):
        estimator._fit(frame)
    assert cluster.options["cache"] == "memory"
