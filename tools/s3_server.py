"""An S3 on this machine, for `s3a://` paths: moto's server, which keeps its objects in memory.

`S3Server` is a context manager. Needs the packages of tools/requirements.txt and, for its first
start, Maven, which fetches Hadoop's connector and Amazon's SDK (15 MB) into build/hadoop.

    tools/s3_server.py    # only fetches the jars, where they are missing
"""

import http.client
import json
import pathlib
import sys
import time

import hadoop_daemons
from daemons import Cluster, Daemon, DaemonError
from hadoop_daemons import JARS, LOOPBACK, free_port

#: The Hadoop client of the Spark in tools/requirements-run.txt, which a connector must fit.
CLIENT_VERSION = "3.4.2"
#: The SDK that this connector is made for. Programs take all of it, `bundle`, which has 600 MB.
_SDK_VERSION = "2.29.52"
_JARS = JARS.with_name(f"s3a-{CLIENT_VERSION}")
_ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-aws", CLIENT_VERSION, "*:*"),
    ("software.amazon.awssdk", "s3-transfer-manager", _SDK_VERSION, "org.slf4j:slf4j-api"),
    ("software.amazon.awssdk", "sts", _SDK_VERSION, "org.slf4j:slf4j-api"),
)
_START_TIMEOUT_S = 120


def fetch_jars():
    """The folder with Hadoop's connector and what it needs; fetches it where it is not there."""
    return hadoop_daemons.fetch_jars(_JARS, _ARTIFACTS)


def properties(endpoint):
    """Hadoop's properties for an S3 at http://`endpoint`, with an account of its tests."""
    return {
        "fs.s3a.endpoint": f"http://{endpoint}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        "fs.s3a.access.key": "tests",
        "fs.s3a.secret.key": "tests",
    }


class S3Server(Cluster):
    """The server with empty buckets, started on entry and stopped on exit of the `with` block.

    directory: for its log; buckets: their names; address: host:port, a free one by default.

    Attribute: `address`. Not safe for use from several threads. The server ends with the thread
    that started it, and its objects with it.
    """

    def __init__(self, directory="build/s3", buckets=("tfos",), address=None):
        self.directory = pathlib.Path(directory).resolve()
        self.buckets = buckets
        self.address = address or f"{LOOPBACK}:{free_port()}"
        self._daemons = []

    def _start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        host, _, port = self.address.partition(":")
        command = [sys.executable, "-m", "moto.server", "-H", host, "-p", port]
        environment = hadoop_daemons.environment()
        self._daemons.append(Daemon("s3", "moto's server", command, environment, self.directory))
        hadoop_daemons.wait_for(
            self._is_ready,
            "moto's server to answer",
            self._daemons,
            time.monotonic() + _START_TIMEOUT_S,
            self.directory,
        )
        for bucket in self.buckets:
            if self.ask("PUT", f"/{bucket}")[0] != http.client.OK:
                raise DaemonError(
                    f"moto's server made no bucket {bucket}; its log is in {self.directory}"
                )

    def _is_ready(self):
        try:
            return self.ask("GET", "/moto-api/data.json")[0] == http.client.OK
        except OSError:
            return False

    def ask(self, method, path):
        """The status and the bytes of an answer."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            # A key, so that the server knows that S3 is meant.
            headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/a"}
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self, timeout_s=15):
        """Stops the server. Safe to call again."""
        hadoop_daemons.stop_all(self._daemons, timeout_s)


def environment(addresses, more=None):
    """Environment variables for Hadoop's client of a process.

    addresses: {bucket: host:port}; the first is that of other buckets, too. more: Hadoop's
    properties besides.
    """
    of_buckets = {
        f"fs.s3a.bucket.{bucket}.endpoint": f"http://{address}"
        for bucket, address in addresses.items()
    }
    given = {**properties(next(iter(addresses.values()))), **of_buckets, **(more or {})}
    return {
        "HADOOP_CLASSPATH": f"{fetch_jars()}/*",
        "TFOS_HADOOP_SCHEMES": "s3a",
        "TFOS_HADOOP_PROPERTIES": json.dumps(given),
    }


def main():
    try:
        fetch_jars()
    except DaemonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
