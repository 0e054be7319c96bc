"""What a cluster is asked to be, and what its coordinator and its launch tasks are told of it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

from tfos.base import keys, network
from tfos.base.roles import SERVICE_JOBS, service_nodes, tensorboard_node
from tfos.cluster import launch
from tfos.cluster.resumption import Resumption
from tfos.feed.datafeed import VALIDATION_QUEUE
from tfos.files import hadoop_settings
from tfos.settings import Settings

#: The feeds of a cluster: what ``train`` and ``inference`` fill, and ``train(validation=...)``.
QUEUES = ("input", VALIDATION_QUEUE)

#: The driver gives up first, as it can also ask Spark what holds the tasks back.
_BEYOND_THE_DRIVER_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class ClusterRequest:
    """What :func:`tfos.run` is asked for, under its names; and ``queues``, the names of feeds, for
    which only older APIs ask."""

    nodes: int
    args: Any = None
    parameter_servers: int = 0
    ps: int = 0
    chief: str | None = None
    evaluator: bool = False
    input_mode: str = "spark"
    tensorboard: bool = False
    log_dir: str | os.PathLike[str] | None = None
    driver_parameter_servers: bool = False
    registration_timeout: float = 600
    resources: Any = None
    queues: tuple[str, ...] = QUEUES
    #: How many of ``nodes`` must not be lost; None: all of them.
    min_nodes: int | None = None
    mlflow: Any = False
    resume: str | os.PathLike[str] | None = None

    @property
    def on_driver(self) -> int:
        """How many nodes run on the driver; they are the first ones."""
        return self.ps + self.parameter_servers if self.driver_parameter_servers else 0


@dataclass(frozen=True)
class ClusterPlan:
    """A request that was checked, with the roles and settings that follow from it."""

    request: ClusterRequest
    roles: list[dict[str, Any]]
    settings: Settings
    #: Pickled ``(main, args)``.
    payload: bytes = field(repr=False)
    #: The ResourceProfile of the launch tasks; None: Spark's default.
    profile: Any = None
    resumption: Resumption | None = None
    #: Where executors reach the driver, as Spark has it; empty for Spark Connect.
    driver_host: str = ""

    @property
    def node_count(self) -> int:
        return sum(role["count"] for role in self.roles)

    @property
    def _min_training(self) -> int:
        """How many of the nodes that train must not be lost; 0: all."""
        least = self.request.min_nodes
        return 0 if least is None else least - len(service_nodes(self.roles))

    @property
    def may_grow(self) -> bool:
        """Whether nodes may come in place of lost ones, and late."""
        return self.is_elastic and self.settings.late_nodes

    @property
    def returning_nodes(self) -> int:
        """How many nodes, counted from node 0, are restarted when they are lost: native parameter
        servers, of whose state those that train keep copies."""
        returns = self.settings.late_nodes and self.settings.min_nodes_timeout > 0
        return self.request.parameter_servers if returns else 0

    @property
    def is_elastic(self) -> bool:
        """Whether the nodes that train go on without lost ones."""
        return self.request.min_nodes is not None

    @property
    def nodes_to_begin_with(self) -> int:
        """How many executor slots are needed at first, with those of nodes on the driver."""
        least = self.request.min_nodes
        return least if least is not None and self.may_grow else self.request.nodes

    @property
    def _registration_timeout_ms(self) -> int:
        return int(self.request.registration_timeout * 1000) + _BEYOND_THE_DRIVER_MS

    @property
    def _advertised_address(self) -> str:
        """Empty: the coordinator finds it itself, by the address that it is bound to."""
        settings = self.settings
        if settings.coordinator_advertised_address:
            return str(settings.coordinator_advertised_address)
        listens_on_all = settings.coordinator_bind_address in ("", "0.0.0.0", "::")
        return network.own_address(self.driver_host) if listens_on_all else ""

    def of_coordinator(self, cluster_id: str, name: str, token: str) -> dict[str, Any]:
        """What the coordinator is started with (docs/formats/control-protocol.md). name: of the
        application, for people."""
        settings = self.settings
        tensorboard = tensorboard_node(self.roles) if self.request.tensorboard else -1
        return {
            "protocol": launch.PROTOCOL,
            "cluster_id": cluster_id,
            "name": name,
            "token": token,
            "scrape_token": settings.scrape_token,
            "encrypt": settings.encrypt,
            "bind_address": settings.coordinator_bind_address,
            "advertised_address": self._advertised_address,
            "ports": settings.coordinator_port,
            "roles": self.roles,
            "service_jobs": list(SERVICE_JOBS),
            "tensorboard_node": tensorboard,
            "registration_timeout_ms": self._registration_timeout_ms,
            "start_timeout_ms": int(settings.node_start_timeout * 1000),
            "heartbeat_interval_ms": round(settings.heartbeat_interval * 1000),
            "heartbeat_timeout_ms": round(settings.heartbeat_timeout * 1000),
            "step_timeout_ms": math.ceil(settings.node_step_timeout * 1000),
            "stop_grace_ms": round(settings.stop_grace * 1000),
            "max_lost_nodes": settings.max_lost_nodes,
            "min_nodes": self._min_training,
            "min_nodes_timeout_ms": round(settings.min_nodes_timeout * 1000)
            if self.may_grow or self.returning_nodes
            else 0,
            "late_nodes": self.may_grow,
            "max_losses_of_host": settings.hosts_max_losses,
            "loss_period_ms": round(settings.hosts_loss_period * 1000),
            "restarts": settings.restarts,
            "returning_nodes": self.returning_nodes,
            "log_level": settings.log_level,
        }

    def of_launch(
        self,
        conf: Any,
        cluster_id: str,
        token: str,
        coordinator: tuple[str, int],
        default_fs: str,
        working_dir: str,
    ) -> launch.LaunchPlan:
        """What every launch task needs. conf: Spark's configuration."""
        settings, request = self.settings, self.request
        log_dir = None if request.log_dir is None else os.fspath(request.log_dir)
        return launch.LaunchPlan(
            cluster_id=cluster_id,
            keys=keys.keys_of_launch(token),
            encrypt=settings.encrypt,
            coordinator_address=coordinator[0],
            coordinator_port=coordinator[1],
            node={
                "input_mode": request.input_mode,
                "default_fs": default_fs,
                "working_dir": working_dir,
                "log_dir": log_dir,
                "resume": None if self.resumption is None else self.resumption.of_node(),
                "keras_backend": settings.keras_backend,
                "queues": list(request.queues),
                "parameter_servers": request.parameter_servers,
                "feed_memory": settings.feed_memory,
                "feed_cache_memory": settings.feed_cache_memory,
                "elastic": self.is_elastic,
                "late": self.may_grow,
                "servers_return": self.returning_nodes > 0,
                "may_lose_nodes": settings.max_lost_nodes > 0,
                "feed_cache_directory": settings.feed_cache_directory,
                "feed_pickle": settings.feed_pickle,
                "tensors": {
                    "shared_memory": settings.tensors_shared_memory,
                    "rdma": settings.rdma,
                    "timeline": settings.tensors_timeline,
                    "regroup_timeout": settings.tensors_regroup_timeout,
                },
                "ports": settings.ports,
            },
            payload=self.payload,
            stay=request.input_mode == "tensorflow",
            registration_timeout_ms=self._registration_timeout_ms,
            heartbeat_interval_ms=round(settings.heartbeat_interval * 1000),
            heartbeat_timeout_ms=round(settings.heartbeat_timeout * 1000),
            answer_timeout_ms=math.ceil(settings.node_answer_timeout * 1000),
            advertised_address=settings.node_advertised_address,
            bind_address="0.0.0.0" if settings.node_bind_address == "all" else "",
            ports=settings.ports,
            python=settings.python,
            keep_omp_num_threads=conf.contains("spark.executorEnv.OMP_NUM_THREADS"),
            gpu_count=settings.gpu_count,
            gpu_count_if_any=settings.gpu_count_if_any,
            gpu_fraction=settings.gpu_fraction,
            nodes_without_gpus=service_nodes(self.roles),
            parameter_servers=request.parameter_servers,
            returning_nodes=self.returning_nodes,
            log_level=settings.log_level,
            log_dir=log_dir,
            hadoop_environment=hadoop_settings.environment(conf, settings),
        )
