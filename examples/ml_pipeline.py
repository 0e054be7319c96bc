#!/usr/bin/env python3
"""A Keras model as a stage of a Spark ML pipeline: scaled, trained on two nodes, saved, loaded, scored.

    python examples/ml_pipeline.py [--epochs N] [--directory DIR] [--mnist DIRECTORY]

DIR, for the models, must be one that driver and executors reach, such as hdfs:///models.
"""

import argparse
import sys
import tempfile

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import SQLTransformer, StandardScaler
from pyspark.ml.functions import array_to_vector

import tfos.ml
from tfos.examples import digits, spark_session


def build(args):
    """Runs in every node: the model, compiled as for one machine."""
    import keras

    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.layers.Input((args["pixels"],)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=2)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--min-accuracy", type=float, default=0.9)
    args = parser.parse_args()
    train_rows, test_rows = digits.load(args.mnist)
    directory = args.directory or tempfile.mkdtemp(prefix="tfos-ml-pipeline-")

    with spark_session.session("ml_pipeline", args.master, args.nodes) as spark:
        train, test = (
            spark.createDataFrame(rows, "pixels array<double>, label int").select(
                array_to_vector("pixels").alias("pixels"), "label"
            )
            for rows in (train_rows, test_rows)
        )
        pipeline = Pipeline(
            stages=[
                StandardScaler(inputCol="pixels", outputCol="scaled", withMean=True),
                tfos.ml.Estimator(
                    build=build,
                    inputMapping={"scaled": "pixels"},
                    outputMapping={"output_0": "logits"},
                    nodes=args.nodes,
                    epochs=args.epochs,
                    batchSize=32,
                    modelDir=f"{directory}/fits",
                    args={"pixels": len(train_rows[0][0])},
                ),
                SQLTransformer(
                    statement="SELECT *, CAST(array_position(logits, array_max(logits)) - 1 AS double) "
                    "AS prediction FROM __THIS__"
                ),
            ]
        )
        pipeline.fit(train).write().overwrite().save(f"{directory}/pipeline")

        scored = PipelineModel.load(f"{directory}/pipeline").transform(test)
        scored.select("label", "prediction", "logits").show(5)
        accuracy = MulticlassClassificationEvaluator(metricName="accuracy").evaluate(scored)
        print(f"Accuracy: {accuracy:.2%}. The pipeline is in {directory}/pipeline")
    return 0 if accuracy >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
