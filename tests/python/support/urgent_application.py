"""An application on YARN that needs room, and takes it from others: YARN preempts their containers."""

from __future__ import annotations

import contextlib
import getpass
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

from support.waiting import BOUND_SECONDS, wait_for


@contextlib.contextmanager
def urgent_application(yarn: Any, memory_mb: int) -> Iterator[None]:
    """One in the queue "urgent" of a ``YarnCluster(preempts=True)``, a container of so much memory.
    The block begins when it has its container, and at its end the application is killed."""
    new = _ask(yarn, "cluster/apps/new-application", {})["application-id"]
    application = {
        "application-id": new,
        "application-name": "urgent",
        "queue": "urgent",
        "max-app-attempts": 1,
        "resource": {"memory": memory_mb, "vCores": 1},
        "am-container-spec": {"commands": {"command": "exec sleep 1000"}},
    }
    _ask(yarn, "cluster/apps", application)
    try:
        wait_for(lambda: _has_container(yarn, new), "the room for the urgent application")
        yield
    finally:
        kill_application(yarn, new)


def kill_application(yarn: Any, application: str) -> None:
    _ask(yarn, f"cluster/apps/{application}/state", {"state": "KILLED"}, "PUT")


def _has_container(yarn: Any, application: str) -> bool:
    state = yarn.get(f"cluster/apps/{application}") or {"app": {}}
    return state["app"].get("runningContainers", 0) > 0


def _ask(yarn: Any, resource: str, body: Any, method: str = "POST") -> Any:
    request = urllib.request.Request(
        f"http://{yarn.http}/ws/v1/{resource}?user.name={getpass.getuser()}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        text = answer.read()
    return json.loads(text) if text else None
