"""Spark ML: an estimator that trains a Keras model on a cluster, a model that runs SavedModels.

    estimator = Estimator(build=build, inputMapping={"pixels": "pixels"}, labelCol="label",
                          modelDir="hdfs:///models", nodes=2, epochs=3)
    fitted = Pipeline(stages=[scaler, estimator]).fit(train)
    fitted.transform(test).show()

Both are stages like Spark's own: in a Pipeline, in a CrossValidator, saved and loaded.
docs/inference.md has what a column can be for a model.
"""

from tfos.ml.estimator import Estimator
from tfos.ml.model import Model

#: As the jar calls it: Spark finds it by that name in what either of the two has saved.
TensorFlowModel = Model

__all__ = ["Estimator", "Model"]
