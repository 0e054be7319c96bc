"""Writes docs/settings.md from python/tfos/settings.py; with --check only compares."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from tfos.settings import SETTINGS  # noqa: E402

PAGE = ROOT / "docs" / "settings.md"

HEAD = """# Settings

Set a Spark configuration key (`--conf spark.tfos.feed.memory=134217728`), or pass its keyword to `tfos.run`
(`feed_memory=134217728`). The keyword takes precedence. Sizes may have a unit,
such as `256m` or `1g`; so may times, such as `500ms`, `30s` or `10min`. `tfos doctor --settings` prints keys, defaults and meanings.
Some things are set [in the environment](#environment-variables).

This page is made from python/tfos/settings.py by `.venv/bin/python tools/pages/settings_page.py`.

| key | keyword | default | unit | meaning |
|---|---|---|---|---|
"""  # noqa: E501  (lines of the page)

VARIABLES = """
## Environment variables

Your shell's variables reach the driver and the commands that you run there. For executors and their nodes, set `spark.executorEnv.NAME` in the Spark configuration.

### What you can set

| variable | for | meaning |
|---|---|---|
| `PYSPARK_PYTHON` | driver, `tfos submit`, `tfos doctor` | the Python of the executors, and so of the nodes. `spark.pyspark.python` takes precedence, and `spark.tfos.python` for the nodes ([programs](programs.md), [running on a cluster](submit.md#the-python-environment)) |
| `SPARK_HOME` | commands, and Hadoop's client in each process | Spark's installation; default: the installed `pyspark` |
| `SPARK_CONF_DIR` | `tfos submit`, `tfos doctor` | the folder of `spark-defaults.conf`; default: `conf` in Spark's folder |
| `XDG_CACHE_HOME` | `tfos submit` | packed Python environments are kept in `tfos/environments` below this folder; default: `~/.cache` |
| `TFOS_RUNTIME_DIR`, else `XDG_RUNTIME_DIR` | driver, and commands such as `tfos status` | where they find a running cluster ([how](operate.md#how-a-cluster-is-found)) |
| `JAVA_HOME` | each process that uses `hdfs://` paths | its Java; default: the PATH's `java` |
| `HADOOP_CONF_DIR`, `HADOOP_HOME`, `HADOOP_CLASSPATH`, `HADOOP_USER_NAME`, `HADOOP_TOKEN_FILE_LOCATION` | each process that uses `hdfs://` paths | Hadoop's configuration, jars, user and tokens ([HDFS](hdfs.md#settings)) |
| `TFOS_HADOOP_PROPERTIES`, `TFOS_HADOOP_SCHEMES`, `TFOS_HADOOP_JVM_MEMORY`, `TFOS_HADOOP_JVM_OPTIONS` | each process that uses `hdfs://` paths | properties, further schemes, memory and options of Hadoop's client ([HDFS](hdfs.md#settings)). In nodes, `spark.hadoop.*` and `spark.tfos.hadoop.*` take precedence |
| `TFOS_TENSORFLOW` | JVMs that run models | the folder of the package `tensorflow` ([Scala and Java](jvm.md#tensorflow)) |
| `CUDA_VISIBLE_DEVICES` | executors | the GPUs that nodes may take ([GPUs](gpus.md)) |
| `KERAS_BACKEND` | executors | the backend of Keras in nodes, if `spark.tfos.keras.backend` is not set ([JAX and PyTorch](backends.md)) |
| `OMP_NUM_THREADS` | executors | threads of OpenMP in nodes. It counts only as `spark.executorEnv.OMP_NUM_THREADS` |
| `TENSORBOARD_PORT` | executors | port or range for the TensorBoard beside the chief; default: any |
| `UCX_NET_DEVICES`, `UCX_TLS` and others of UCX | executors | what UCX uses, with `rdma` ([network](network.md#rdma)) |
| `MLFLOW_TRACKING_URI` and others of MLflow | driver | where runs are written, with `mlflow` ([MLflow](mlflow.md#servers-files-and-passwords)) |

### What a node finds

A node inherits its executor's environment, without Spark's secrets. tfos changes these:

| variable | value in a node |
|---|---|
| `TF_CONFIG` | addresses and roles of the nodes, if TensorFlow runs in more than one. Not with the backends `jax` and `torch`, which have [variables of their own](backends.md#what-a-node-finds-in-its-environment) |
| `KERAS_BACKEND` | `spark.tfos.keras.backend`, if that is set |
| `CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER` | the node's GPUs, counted as `nvidia-smi` does (`PCI_BUS_ID`). For a node without GPUs, `CUDA_VISIBLE_DEVICES` is empty, unless it is set for the executors |
| `XLA_PYTHON_CLIENT_MEM_FRACTION` | the node's share of a GPU, with `gpu_fraction` |
| `OMP_NUM_THREADS` | not set: Spark's value is for its Python workers, and would slow TensorFlow down |
| `TFOS_HADOOP_PROPERTIES` and the like | what the session's `spark.hadoop.*` and `spark.tfos.hadoop.*` say, [without secrets](hdfs.md#in-nodes) |
| `LD_PRELOAD` | what was there, and `libjsig.so` of the host's Java |
| `PYTHONPATH`, `PYTHONUNBUFFERED` | where Spark's Python worker finds modules; `1` |
| `MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_` | 32 MiB and 64 MiB, unless they are set: glibc keeps the memory of batches for the next ones |
| `MLFLOW_TRACKING_URI`, `MLFLOW_RUN_ID`, `MLFLOW_EXPERIMENT_ID` | the active run, with `mlflow` |
"""  # noqa: E501  (lines of the page)


def page():
    rows = (
        f"| `{s.key}` | {code(s.keyword)} | {code(s.default)} | {s.unit} | {s.meaning} |\n"
        for s in SETTINGS
    )
    return HEAD + "".join(rows) + VARIABLES


def code(value):
    """A value as Markdown shows code; nothing for an empty one."""
    return "" if value in ("", None) else f"`{value}`"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} differs from the settings: run {sys.argv[0]}")
    else:
        PAGE.write_text(page())
