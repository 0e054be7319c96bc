"""Programs that go on from a checkpoint, or join others; in a module that nodes can import."""

from __future__ import annotations

import contextlib

import tfos
from support.programs.checkpoints import BATCHES, EPOCHS, dataset_of, model_of, wait_for_writer


def interrupted_after_an_epoch(ctx):
    """Fails after the last step of the first epoch, and goes on from there. Returns the epochs and
    their losses."""
    import keras

    def fit(*more):
        model = model_of(seed=5)
        model.compile("adam", "mse")
        kept = ctx.checkpoint(ctx.args, every_seconds=0)
        return model.fit(
            dataset_of(),
            epochs=EPOCHS,
            verbose=0,
            callbacks=[*more, kept, wait_for_writer(kept)],
        )

    def fail(number, logs):
        if tfos.last_checkpoint(ctx.args)[1:] == (0, BATCHES):
            raise InterruptedError

    with contextlib.suppress(InterruptedError):
        fit(keras.callbacks.LambdaCallback(on_epoch_end=fail))
    history = fit()
    return history.epoch, history.history["loss"]


def number_after_joining(ctx, directory):
    """That of the checkpoint that nodes begin which all have joined others that are lost."""
    from tfos.keras.checkpoint.agreement import Agreement
    from tfos.keras.checkpoint.directory import State
    from tfos.keras.checkpoint.parts import PartedDirectory

    model = model_of(seed=5)
    model.compile("sgd", "mse")
    agreement = Agreement(PartedDirectory(directory), model, within_epochs=False)
    agreement.join()
    agreed = agreement.agree(lambda: (6, 0))
    return agreement.plan(agreed, State(6, 0, "SGD", [], {}, None)).number
