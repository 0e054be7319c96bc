"""A driver program that a scheduler stops: what docs/operate.md shows of it, and what that needs.

    python stopped_driver.py DIRECTORY [CODE]

CODE is a file with the page's block. Without one, the driver has no handler.
"""

import os
import pathlib
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession

import tfos
from support.programs.operate import read_batches_slowly as train

WITHOUT_HANDLER = """
with tfos.run(spark, train, nodes=2, args=args) as cluster:
    cluster.train(rows, epochs=100)
"""

directory, *code = sys.argv[1:]
args = {"dir": directory, "kind": "batches"}
spark = (
    SparkSession.builder.master("local-cluster[2,2,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.tfos.slots.timeout", "300")  # the machine may be busy with other tests
    .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
    .getOrCreate()
)
rows = spark.range(4000).selectExpr("array(id / 4000) AS x", "id AS y").repartition(4)
exec(
    compile(pathlib.Path(code[0]).read_text() if code else WITHOUT_HANDLER, "train.py", "exec"),
    {"tfos": tfos, "spark": spark, "train": train, "args": args, "rows": rows},
)
