"""What of a Spark process's environment its children get.

Errors: none. Threads: any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Spark's secrets: of RPC (``_SPARK_AUTH_SECRET``), of its keys (``_SPARK_SSL_..._PASSWORD``), of
#: Spark Connect (``SPARK_CONNECT_AUTHENTICATE_TOKEN``), and of its Python workers and gateway. Java
#: options of its daemons (SPARK_WORKER_OPTS) and, on Kubernetes, of executors (SPARK_JAVA_OPT_0)
#: may have ``-Dspark.authenticate.secret=...``.
#: Hadoop's delegation tokens are a file that HADOOP_TOKEN_FILE_LOCATION names, and stay: a node
#: reads its files with them.
_SECRETS = re.compile(
    r"_?(PY)?SPARK_.*(SECRET|PASSWORD|PASSWD|TOKEN).*"
    r"|SPARK_.*_OPTS|SPARK_JAVA_OPT_\d+|PYTHON_WORKER_FACTORY_SECRET",
    re.IGNORECASE,
)


def without_spark_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of ``environment`` without what lets its reader pass for a part of Spark."""
    return {name: value for name, value in environment.items() if not _SECRETS.fullmatch(name)}
