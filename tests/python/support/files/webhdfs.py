"""Files of a HadoopCluster over its HTTP interface: what neither tfos nor Java has a part in."""

from __future__ import annotations

import getpass
import json
import urllib.parse
import urllib.request

_TIMEOUT_SECONDS = 60


class WebHdfs:
    """The files of `cluster`, as its superuser."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def make_directory(self, path, owner):
        self._ask("PUT", path, "MKDIRS")
        self._ask("PUT", path, "SETOWNER", owner=owner)

    def put(self, path, content):
        """A new file, which everybody may read."""
        where = json.loads(self._ask("PUT", path, "CREATE", noredirect="true", overwrite="true"))
        request = urllib.request.Request(where["Location"], data=content, method="PUT")
        with self._opener.open(request, timeout=_TIMEOUT_SECONDS):
            return

    def names(self, path):
        """The names of what is in a directory."""
        answer = json.loads(self._ask("GET", path, "LISTSTATUS"))
        return sorted(entry["pathSuffix"] for entry in answer["FileStatuses"]["FileStatus"])

    def owner(self, path):
        return json.loads(self._ask("GET", path, "GETFILESTATUS"))["FileStatus"]["owner"]

    def read(self, path):
        return self._ask("GET", path, "OPEN").decode()

    def lines(self, directory):
        """The lines of all the files of a Spark job's output, in order."""
        parts = [name for name in self.names(directory) if name.startswith("part-")]
        return [line for name in parts for line in self.read(f"{directory}/{name}").splitlines()]

    def _ask(self, method, path, operation, **parameters):
        query = urllib.parse.urlencode(
            {"op": operation, "user.name": getpass.getuser(), **parameters}
        )
        request = urllib.request.Request(
            f"http://{self._cluster.http}/webhdfs/v1{urllib.parse.quote(path)}?{query}",
            method=method,
        )
        with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return response.read()
