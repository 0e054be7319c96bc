"""What actions of Spark raise."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tfos.errors import TfosError

#: Spark's own as its gateway has them, where no Python worker had a part in it; and what a task of
#: tfos has said.
SPARK_ERRORS = (PySparkException, Py4JJavaError, TfosError)
