"""What a person sees of a real inference, which Spark computes in an action of the program's."""

from __future__ import annotations

import pathlib
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import tfos
from support.waiting import BOUND_SECONDS, wait_for

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)


def double(ctx):
    """Answers a little at a time until there is a file, and then all the rest."""
    while not ctx.feed.should_stop():
        if rows := ctx.feed.next_batch(10):
            ctx.feed.batch_results([2 * row for row in rows])
            if not pathlib.Path(ctx.args, "go on").exists():
                time.sleep(0.2)


def test_the_driver_says_how_an_inference_goes(spark, tmp_path, capsys, leftovers):
    said = []

    def shown(pattern):
        said.append(capsys.readouterr().err)
        return re.search(pattern, "".join(said))

    rows = spark.sparkContext.parallelize(range(20_000), 4)
    with (
        tfos.run(spark, double, nodes=2, args=str(tmp_path), heartbeat_interval=0.2) as cluster,
        ThreadPoolExecutor(1) as beside,
    ):
        # It is the program's thread that waits for Spark, and for nothing of tfos.
        doubled = beside.submit(cluster.inference(rows).collect)
        try:
            line = wait_for(
                lambda: shown(r"s  inferring \| ([\d,]+) rows answered.* \| .*worker:1 running"),
                lambda: f"a line: {said}",
            )
            assert 0 < int(line[1].replace(",", "")) < 20_000
        finally:
            (tmp_path / "go on").touch()
        assert sorted(doubled.result(BOUND_SECONDS)) == list(range(0, 40_000, 2))
