"""What a person sees of a real inference, which Spark computes in an action of the program's."""

from __future__ import annotations

import pathlib
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import tfos
from support.waiting import BOUND_SECONDS, wait_for
from tfos.cluster.view import teller

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)


def double(ctx):
    """Answers a first batch, and the others once there is a file."""
    while not ctx.feed.should_stop():
        if rows := ctx.feed.next_batch(10):
            ctx.feed.batch_results([2 * row for row in rows])
            wait_for(pathlib.Path(ctx.args, "go on").exists, "the word to go on")


def test_the_driver_says_how_an_inference_goes(spark, tmp_path, monkeypatch, capsys, leftovers):
    monkeypatch.setattr(teller, "_SHORT_SECONDS", 0.0)
    said = []

    def shown(pattern):
        said.append(capsys.readouterr().err)
        return re.search(pattern, "".join(said))

    rows = spark.sparkContext.parallelize(range(1000), 4)
    with (
        tfos.run(spark, double, nodes=2, args=str(tmp_path), heartbeat_interval=0.2) as cluster,
        ThreadPoolExecutor(1) as beside,
    ):
        # It is the program's thread that waits for Spark, and for nothing of tfos.
        doubled = beside.submit(cluster.inference(rows).collect)
        try:
            line = wait_for(
                lambda: shown(r"s  inferring \| ([\d,]+) rows answered.* \| worker:0 "),
                lambda: f"a line: {said}",
            )
            assert 0 < int(line[1].replace(",", "")) < 1000
        finally:
            (tmp_path / "go on").touch()
        assert sorted(doubled.result(BOUND_SECONDS)) == list(range(0, 2000, 2))
