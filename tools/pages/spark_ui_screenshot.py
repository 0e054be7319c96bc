"""Writes docs/images/spark_ui.png: the tab "TensorFlow" of Spark's UI, after a cluster that has
trained and one that has failed.

.venv/bin/python tools/pages/spark_ui_screenshot.py [--output FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pathlib
import sys

from PIL import Image
from pyspark.sql import SparkSession

import tfos

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))
os.environ["PYSPARK_PYTHON"] = sys.executable

from support.page.browsers import browser  # noqa: E402
from tfos.errors import NodeFailedError  # noqa: E402

COLORS = 128  # of the picture


def train(ctx):
    """Runs in every node of the first cluster."""
    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse")
    model.fit(ctx.dataset(128, features="x", label="y"), epochs=2, verbose=0)


def fail(ctx):
    """Runs in every node of the second cluster."""
    ctx.dataset(128, features="z", label="y")


def picture(spark: SparkSession, output: pathlib.Path) -> None:
    rows = spark.range(20000).selectExpr(
        "array(id % 7 / 7, id % 11 / 11) AS x", "id % 7 / 7 - id % 11 / 11 AS y"
    )
    with tfos.run(spark, train, nodes=2) as cluster:
        cluster.train(rows, epochs=2)
    with contextlib.suppress(NodeFailedError), tfos.run(spark, fail, nodes=2) as failing:
        failing.train(rows)
    with browser(1280, 900) as driver:
        port = spark.sparkContext.uiWebUrl.rpartition(":")[2]
        driver.get(f"http://127.0.0.1:{port}/TensorFlow/?id={cluster.cluster_id}")
        shot = Image.open(io.BytesIO(driver.get_screenshot_as_png()))
    shot.convert("RGB").quantize(COLORS).save(output, optimize=True)
    print(f"{output}: {output.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--output", type=pathlib.Path, default=ROOT / "docs" / "images" / "spark_ui.png"
    )
    parsed = parser.parse_args()
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("lines")
    builder = builder.config("spark.jars", tfos.jar_path()).config("spark.ui.port", "0")
    spark = builder.config("spark.driver.extraClassPath", tfos.jar_path()).getOrCreate()
    try:
        picture(spark, parsed.output)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
