"""Files on HDFS through TensorFlow, against a Java program and against WebHDFS, in one run.

    python bench/files/hdfs.py [--repeat 5] [--mib 512] [--output docs/performance.md]

Starts a NameNode and a DataNode on this machine; their data is in the page cache. The Java program
(HadoopFile.java) uses the same client, with a buffer of 1 MiB, for as long as the benchmark runs;
curl takes WebHDFS. Passes alternate, after one of each that is not counted; what was written is
compared with what is read. Records are of 128 KiB, and TensorFlow checks their CRCs.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1] / "feed"), str(HERE.parents[2] / "tools")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import report  # noqa: E402  (beside the feed's benchmarks)

import hadoop_cluster  # noqa: E402  (of tools/)

PIECE = 1 << 20
RECORD = 128 << 10
JAVA_TARGET = 0.9
WEBHDFS_TARGET = 1.5


class JavaProgram:
    """HadoopFile.java, which is asked for one file after the other."""

    def __init__(self, configuration, spark_jars):
        class_path = os.pathsep.join([str(configuration), *map(str, spark_jars)])
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", "-cp", class_path, str(HERE.parent / "HadoopFile.java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, *words):
        """How long it took for a file, as the program says."""
        print(*words, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def spark_jars():
    import pyspark

    jars = pathlib.Path(pyspark.__file__).parent / "jars"
    return [
        path
        for name in ("hadoop-client-api-", "hadoop-client-runtime-", "slf4j-api-")
        for path in jars.glob(f"{name}*.jar")
    ]


def curl(*arguments):
    subprocess.run(
        ["curl", "--silent", "--fail", "--location", "--noproxy", "*", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def make_cases(cluster, java, size, local):
    """{case: {who: function that returns seconds}}"""
    import tensorflow as tf

    import tfos.tensorflow  # noqa: F401

    gfile, piece = tf.io.gfile.GFile, local.read_bytes()[:PIECE]
    ours, theirs, web = (f"{cluster.uri}/{who}" for who in ("tfos", "java", "web"))
    records = f"{cluster.uri}/records"
    page = f"http://{cluster.http}/webhdfs/v1"
    user = f"user.name={os.environ.get('HADOOP_USER_NAME') or __import__('getpass').getuser()}"

    def write():
        with gfile(ours, "wb") as file:
            for _ in range(size // PIECE):
                file.write(piece)

    def read():
        with gfile(ours, "rb") as file:
            while file.read(PIECE):
                continue

    def write_records():
        with tf.io.TFRecordWriter(records) as writer:
            for _ in range(size // RECORD):
                writer.write(piece[:RECORD])

    @tf.function
    def longest():
        # In the graph, as a training would: nothing of it is Python.
        return tf.data.TFRecordDataset(records, buffer_size=PIECE).reduce(
            tf.constant(0), lambda most, record: tf.maximum(most, tf.strings.length(record))
        )

    def read_records():
        assert int(longest()) == RECORD

    def web_write():
        curl(
            "--request",
            "PUT",
            "--upload-file",
            str(local),
            f"{page}/web?op=CREATE&overwrite=true&noredirect=false&{user}",
        )

    def web_read():
        curl(f"{page}/web?op=OPEN&{user}")

    java_write = lambda: java.seconds("write", theirs, size)  # noqa: E731
    java_read = lambda: java.seconds("read", ours)  # noqa: E731
    web_write(), write()
    check_equal(local, lambda: gfile(ours, "rb"), lambda: gfile(web, "rb"))
    return {
        "write, `tf.io.gfile`": {
            "tfos": lambda: timed(write),
            "Java": java_write,
            "WebHDFS": lambda: timed(web_write),
        },
        "read, `tf.io.gfile`": {
            "tfos": lambda: timed(read),
            "Java": java_read,
            "WebHDFS": lambda: timed(web_read),
        },
        "write, `TFRecordWriter`": {
            "tfos": lambda: timed(write_records),
            "Java": java_write,
            "WebHDFS": lambda: timed(web_write),
        },
        "read, `TFRecordDataset`": {
            "tfos": lambda: timed(read_records),
            "Java": java_read,
            "WebHDFS": lambda: timed(web_read),
        },
    }


def check_equal(local, *others):
    """That all hold the same bytes."""
    digests = set()
    for opener in (lambda: open(local, "rb"), *others):
        digest = hashlib.blake2b()
        with opener() as file:
            while data := file.read(PIECE):
                digest.update(data)
        digests.add(digest.digest())
    assert len(digests) == 1, "the files differ"


def line_of(case, seconds, size):
    ours = statistics.median(seconds["tfos"])
    cells = [f"| {case} | {size / ours / 1e9:.2f} GB/s "]
    for who, target in (("Java", JAVA_TARGET), ("WebHDFS", WEBHDFS_TARGET)):
        ratios = sorted(
            theirs / mine for theirs, mine in zip(seconds[who], seconds["tfos"], strict=True)
        )
        cells.append(
            f"| {size / statistics.median(seconds[who]) / 1e9:.2f} GB/s: "
            f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {target} "
        )
    return "".join(cells) + "|"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--mib", type=int, default=512, help="size of a file")
    options = parser.parse_args()
    size = options.mib << 20

    scratch = pathlib.Path(tempfile.mkdtemp(prefix="bench-hdfs-"))
    lines = [
        "| | tfos | Java, the same client | to reach | WebHDFS, curl | to reach |",
        "|---|---|---|---|---|---|",
    ]
    try:
        local = scratch / "local"
        local.write_bytes(os.urandom(PIECE) * (size // PIECE))
        with hadoop_cluster.HadoopCluster(scratch / "hdfs") as cluster:
            os.environ["HADOOP_CONF_DIR"] = str(cluster.configuration)
            java = JavaProgram(cluster.configuration, spark_jars())
            for case, whose in make_cases(cluster, java, size, local).items():
                for function in whose.values():
                    function()
                seconds = {who: [] for who in whose}
                for _ in range(options.repeat):
                    for who, function in whose.items():
                        seconds[who].append(function())
                lines.append(line_of(case, seconds, size))
                print(lines[-1], flush=True)
            java.close()
    finally:
        shutil.rmtree(scratch)
    report.publish(
        "hdfs.py",
        options.repeat,
        f"A NameNode and a DataNode of this machine, a file of {options.mib} "
        "MiB in its page cache; medians, ratios of the rival's time to that of tfos with minimum and "
        "maximum.",
        lines,
        options.output,
        folder="files",
    )


if __name__ == "__main__":
    main()
