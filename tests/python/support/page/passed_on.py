"""The page of a cluster, as Spark's UI passes it on."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

from support.waiting import BOUND_SECONDS


def said_link(said: str, cluster_id: str) -> str:
    """The link with its key, in what a driver has said; "" if it is not there yet."""
    found = re.search(rf"page in Spark's UI \| (http\S+/{cluster_id}/#key=[0-9a-f]{{64}})\b", said)
    return found[1] if found else ""


def status_of(url: str, key: str) -> int:
    """What an HTTP client gets that sends the key as the page does; none, if it is empty."""
    fields = {"Accept": f"*/*;tfos-key={key}"} if key else {}
    # Not through a proxy of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers=fields)
    try:
        with opener.open(request, timeout=BOUND_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
