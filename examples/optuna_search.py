#!/usr/bin/env python3
"""A search with Optuna: it chooses what to try, Spark tasks try it, and the results are a DataFrame.

    python examples/optuna_search.py [--rounds N] [--instances N] [--directory DIR]

Needs `pip install optuna` on the driver alone. In each round the driver asks the study for a trial for
each instance, `tfos.parallel` runs them at the same time, and the driver tells the study what they have
reached. The models and the table of the trials (Parquet) are kept.
"""

import argparse
import os
import sys
import tempfile

import tfos.parallel
from tfos.examples import digits, spark_session

try:
    import optuna
except ModuleNotFoundError:
    sys.exit("This example needs Optuna: pip install optuna")


def space():
    """What a trial may choose."""
    distributions = optuna.distributions
    return {
        "rate": distributions.FloatDistribution(1e-5, 1.0, log=True),
        "units": distributions.IntDistribution(4, 64, log=True),
        "activation": distributions.CategoricalDistribution(["relu", "tanh"]),
    }


def attempt(args, number, chosen):
    """Runs in an instance: trains a model with what a trial has chosen, and returns its accuracy."""
    import numpy as np
    import tensorflow as tf

    import keras

    keras.utils.set_random_seed(7)
    pixels, labels = (np.array(column) for column in zip(*args.train_rows, strict=True))
    test_pixels, test_labels = (np.array(column) for column in zip(*args.test_rows, strict=True))
    model = keras.Sequential(
        [
            keras.layers.Input((len(pixels[0]),)),
            keras.layers.Dense(chosen["units"], activation=chosen["activation"]),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(chosen["rate"]),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(pixels, labels, batch_size=32, epochs=args.epochs, verbose=0)
    tf.io.gfile.makedirs(args.directory)
    model.save(model_of(args.directory, number))
    return float(model.evaluate(test_pixels, test_labels, verbose=0)[1])


def model_of(directory, number):
    """Where the model of a trial is."""
    return os.path.join(directory, f"trial-{number}.keras")


def run_round(spark, study, args):
    """One trial for each instance, all at the same time."""
    trials = [study.ask(space()) for _ in range(args.instances)]
    chosen = [(trial.number, trial.params) for trial in trials]
    reached = tfos.parallel.run(
        spark, lambda instance: attempt(args, *chosen[instance.index]), instances=len(trials)
    )
    for trial, accuracy in zip(trials, reached, strict=True):
        study.tell(trial, accuracy)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    spark_session.add_directory_argument(parser)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-optuna-search-")
    args.train_rows, args.test_rows = digits.load()

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Some random trials first; from then on, what is tried follows from what was reached.
    sampler = optuna.samplers.TPESampler(seed=7, n_startup_trials=4)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    with spark_session.session("optuna_search", args.master, args.instances) as spark:
        for number in range(args.rounds):
            run_round(spark, study, args)
            print(f"Round {number + 1}: {study.best_value:.2%} at best", flush=True)
        trials = study.trials_dataframe(attrs=("number", "params", "value"))
        trials = trials.rename(columns=lambda name: name.removeprefix("params_"))
        table = spark.createDataFrame(trials.rename(columns={"value": "accuracy"}))
        table = table.orderBy("accuracy", ascending=False).coalesce(1)
        table.write.mode("overwrite").parquet(f"{args.directory}/trials")
        table.show()
    best = model_of(args.directory, study.best_trial.number)
    print(f"Best of {len(study.trials)} trials: {study.best_value:.2%} with {study.best_params}")
    print(f"The best model is {best}; the table is in {args.directory}/trials")
    return 0 if len(study.trials) == args.rounds * args.instances else 1


if __name__ == "__main__":
    sys.exit(main())
