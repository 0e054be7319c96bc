"""How servers combine what workers push: combiners by name, and optimizers on the servers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfos import _native
from tfos.base.choices import check_choice
from tfos.errors import BadInputError

#: Combiners by name, and what a worker pushes for each.
PUSHED = {"delta": "change", "mean": "values", "update-mean": "values"}


@dataclasses.dataclass(frozen=True)
class Sgd:
    """Gradient descent on the servers, as ``keras.optimizers.SGD``."""

    learning_rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    combiner = "sgd"


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam on the servers, as ``keras.optimizers.Adam``."""

    learning_rate: float = 0.001
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    combiner = "adam"


def make_rule(combiner: str, optimizer: Any, workers: int) -> tuple[Any, str]:
    """The native rule, and what is pushed under it."""
    if optimizer is not None:
        settings = on_the_server(optimizer)
        return _native.ParameterRule.make(
            settings.combiner, workers=workers, **dataclasses.asdict(settings)
        ), "gradients"
    check_choice("combiner", combiner, PUSHED)
    return _native.ParameterRule.make(combiner, workers=workers), PUSHED[combiner]


def on_the_server(optimizer: Any) -> Sgd | Adam:
    """What the servers do instead of a Keras optimizer. Raises BadInputError for another one."""
    if isinstance(optimizer, (Sgd, Adam)):
        return optimizer
    kinds = {"SGD": Sgd, "Adam": Adam}
    name = type(optimizer).__name__
    if name not in kinds or not hasattr(optimizer, "get_config"):
        raise BadInputError(
            f"{name} is not an optimizer of parameter servers: keras.optimizers.SGD and Adam are, "
            "and Sgd and Adam of tfos.parameter_server"
        )
    config = optimizer.get_config()
    settings = kinds[name]
    fields = {field.name for field in dataclasses.fields(settings)}
    for key in (
        "clipnorm",
        "clipvalue",
        "global_clipnorm",
        "weight_decay",
        "use_ema",
        "amsgrad",
        "gradient_accumulation_steps",
    ):
        if config.get(key):
            raise BadInputError(f"{name}({key}={config[key]!r}) can't be on parameter servers")
    if not isinstance(config["learning_rate"], (int, float, np.floating)):
        raise BadInputError("a learning rate that changes can't be on parameter servers")
    return settings(**{key: config[key] for key in fields})
