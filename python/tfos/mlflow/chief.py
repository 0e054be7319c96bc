"""What a node does for MLflow: its program has the run, and the chief's ``fit`` is in it."""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tfos.base.import_hook import call_after_import
from tfos.keras.callback import Callback, add_to_fit
from tfos.keras.empty_epochs import EpochWatch
from tfos.mlflow.tracking import HOW_TO_INSTALL, Target
from tfos.mlflow.writer import (
    Point,
    Writer,
    log_metrics,
    name_for_mlflow,
    without_retries_told,
)

logger = logging.getLogger(__name__)

#: Where the user says nothing: MLflow's own would keep a program for four minutes.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}


def run_program(main: Callable[[Any], Any], target: Target, ctx: Any) -> Any:
    """``main(ctx)`` in a node of a cluster whose driver has asked for MLflow. What it logs itself,
    as with ``mlflow.log_metric``, is in the run of the driver, on any node."""
    os.environ.update(target.environment)
    os.environ.pop("MLFLOW_EXPERIMENT_NAME", None)
    os.environ.update(
        {
            "MLFLOW_TRACKING_URI": target.uri,
            "MLFLOW_RUN_ID": target.run_id,
            "MLFLOW_EXPERIMENT_ID": target.experiment_id,  # Models look for it.
        }
    )
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    who = f"{ctx.job_name}:{ctx.task_index} on host {ctx.host}"
    writer = _log_fits(target, who, ctx.size) if ctx.is_chief else None
    try:
        return main(ctx)
    finally:
        if writer is not None:
            writer.close()
        _leave_the_run_open()


def _log_fits(target: Target, who: str, nodes: int) -> Writer | None:
    try:
        import mlflow  # noqa: F401
    except Exception as error:  # Versions that don't fit together raise anything.
        logger.warning(
            "%s can't import MLflow (%s), so run %s has neither its metrics nor its model: %s. The "
            "training goes on",
            who,
            error,
            target.run_id,
            HOW_TO_INSTALL,
        )
        return None
    writer = Writer(target, who)

    def prepare() -> None:
        add_to_fit(
            sys.modules["keras"], FitLogging, lambda model: FitLogging(model, writer, target, nodes)
        )

    call_after_import("keras", prepare)
    return writer


def _leave_the_run_open() -> None:
    """The driver ends the run. MLflow would, at the end of a process that has logged into it."""
    mlflow = sys.modules.get("mlflow")
    try:
        if mlflow is not None and mlflow.active_run() is not None:
            mlflow.end_run("RUNNING")
    except Exception as error:  # Of a server that is gone, which was warned of.
        logger.debug("the run can't be left: %r", error)


class FitLogging(Callback):
    """Logs one ``fit`` of Keras 3: parameters, the metrics of each epoch, and the model.

    Owner and lifetime: one ``fit``. Threads: the one that trains.
    """

    async_safe = True  # Keras need not wait for the values of each step because of it.

    def __init__(self, model: Any, writer: Writer, target: Target, nodes: int):
        self.model = model
        self.params: Any = None
        self._writer = writer
        self._target = target
        self._nodes = nodes
        self._epoch = 0
        self._watch = EpochWatch()

    def on_train_begin(self, logs: Any = None) -> None:
        told = {"epochs": (self.params or {}).get("epochs"), "nodes": self._nodes}
        try:
            parameters, summary = told | _parameters_of(self.model), _summary_of(self.model)
        except Exception as error:  # Of a model that does it in its own way.
            self._writer.complain(error)
            return
        run_id = self._target.run_id
        self._writer.submit(functools.partial(_log_new, run_id, parameters))
        self._writer.submit(lambda client: client.log_text(run_id, summary, "model_summary.txt"))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._watch.begin(self.model)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._watch.add_batch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._watch.is_empty(self.model):
            return  # Keras has zeros for it.
        self._epoch = epoch
        moment = time.time_ns() // 1_000_000
        points = [Point(name_for_mlflow(name), value, epoch) for name, value in _numbers(logs)]
        self._writer.submit(functools.partial(log_metrics, self._target.run_id, moment, points))

    def end(self, returned: bool) -> None:
        """``fit`` has ended, however it did."""
        if not (returned and self._target.log_model):
            return
        from tfos.mlflow import model

        try:
            with without_retries_told():
                model.log(self.model, self._target, self._epoch)
        except Exception as error:  # Whatever it is, the training is worth more.
            self._writer.complain(error, lost="the model")


def _log_new(run_id: str, parameters: dict[str, Any], client: Any) -> None:
    """A parameter never changes, so that of a run which goes on keeps its first value."""
    from mlflow.entities import Param

    there = client.get_run(run_id).data.params
    new = [
        Param(name, str(value))
        for name, value in parameters.items()
        if value is not None and name not in there
    ]
    if new:
        client.log_batch(run_id, params=new[:100])  # MLflow takes no more at once.


def _parameters_of(model: Any) -> dict[str, Any]:
    """Those that MLflow's own logging of Keras has, by the same names, where they are values."""
    optimizer = getattr(model, "optimizer", None)
    settings = optimizer.get_config() if optimizer is not None else {}
    loss = getattr(model, "loss", None)
    return {
        "loss": loss if isinstance(loss, str) else getattr(loss, "name", None),
        **{
            f"optimizer_{name}": value
            for name, value in settings.items()
            if isinstance(value, (bool, int, float, str))
        },
    }


def _summary_of(model: Any) -> str:
    lines: list[str] = []
    model.summary(print_fn=lambda line, *_, **__: lines.append(line))
    return "\n".join(lines)


def _numbers(logs: Any) -> Iterator[tuple[str, float]]:
    for name, value in (logs or {}).items():
        try:
            yield name, float(value)
        except (AttributeError, TypeError, ValueError):
            continue  # A metric of the program's own may be anything.
