"""What ``tfos.ml.Estimator`` selects, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tfos
from support.fake_spark import FakeSparkContext, fake_session
from tfos import ml


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
