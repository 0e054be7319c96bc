"""How a driver reaches Spark's UI and its event log: in the JVM of its SparkContext, or on a server
of Spark Connect. The other end is in the jar (tfos.internal.ui)."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from tfos.spark import jar
from tfos.spark.connect import ConnectContext

logger = logging.getLogger(__name__)

#: The jar's class that takes events of clients of Spark Connect.
_EVENT_SOURCE = "tfos.internal.ui.ClusterEventSource"
#: Where Spark 4 and 3.5 keep the addresses of YARN's proxy in front of the UI, between commas.
_YARN_PROXIES = (
    "spark.org.apache.spark.deploy.yarn.AmIpFilter.param.PROXY_URI_BASES",
    "spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.PROXY_URI_BASES",
)


class UiChannel(Protocol):
    """To the UI and the event log of a session, for one cluster.

    Threads: one at a time. Errors: Spark's own, when it is gone."""

    def open(self) -> str:
        """Has Spark's UI pass on the cluster's page. Returns the page's address in front of all
        proxies; "" where nobody passes it on, or nobody knows the address."""

    def post(self, text: str) -> bool:
        """Posts the text of an event. Returns whether anybody sees events."""

    def close(self) -> None:
        """The coordinator has ended, so nobody passes its page on any more."""


def channel_to(sc: Any, cluster_id: str, coordinator: str) -> UiChannel | None:
    """The one of a session; None where it has no jar, or neither a UI nor an event log.

    coordinator: the address of its page, as the driver reaches it; with Spark Connect as all do.
    """
    if isinstance(sc, ConnectContext):
        return _OnServer(sc, cluster_id, coordinator)
    from py4j.java_gateway import JavaClass

    if jar.why_unloadable(sc):
        return None
    events = sc._jvm.tfos.internal.ui.ClusterEvents
    # It is none with no jar, or one of an older tfos.
    if not isinstance(events, JavaClass) or not events.attach(sc._jsc.sc()):
        return None
    return _Here(sc, events, cluster_id, coordinator)


class _Here:
    """To the JVM of this process's SparkContext."""

    def __init__(self, sc: Any, events: Any, cluster_id: str, coordinator: str):
        self._sc = sc
        self._events = events
        self._id = cluster_id
        self._coordinator = coordinator

    def open(self) -> str:
        if not self._events.open(self._sc._jsc.sc(), self._id, self._coordinator):
            return ""
        return f"{ui_address(self._sc)}/TensorFlow/page/{self._id}/"

    def post(self, text: str) -> bool:
        self._events.post(self._sc._jsc.sc(), text)
        return True

    def close(self) -> None:
        self._events.close(self._sc._jsc.sc(), self._id, self._coordinator)


class _OnServer:
    """To Spark's server, where the jar has a data source for this. Its schema is asked for, which
    takes no task slot. Spark's own error when the server has no jar, or an older one."""

    def __init__(self, context: ConnectContext, cluster_id: str, coordinator: str):
        self._session = context.session
        self._id = cluster_id
        self._coordinator = coordinator

    def open(self) -> str:
        return ""  # The first event opens it. A client does not learn where the server's UI is.

    def post(self, text: str) -> bool:
        return self._ask(cluster=text, coordinator=self._coordinator)

    def close(self) -> None:
        self._ask(ended=self._id, coordinator=self._coordinator)

    def _ask(self, **options: str) -> bool:
        source = self._session.read.format(_EVENT_SOURCE).options(**options)
        return source.load().columns == ["seen"]


def ui_address(sc: Any) -> str:
    """Where a browser finds Spark's UI, without a slash at the end: the proxy in front of it, where
    Spark knows its address."""
    conf = sc._jsc.sc().conf()
    for key in _YARN_PROXIES:
        # With two ResourceManagers there are two: the one that waits leads to the other.
        if proxy := conf.get(key, "").partition(",")[0]:
            return str(proxy).rstrip("/")
    front = conf.get("spark.ui.reverseProxyUrl", "")
    # It may also be a path alone, of a host that only browsers know.
    if conf.get("spark.ui.reverseProxy", "false") == "true" and front.startswith("http"):
        return f"{front.rstrip('/')}/proxy/{sc.applicationId}"
    return str(sc.uiWebUrl).rstrip("/")
