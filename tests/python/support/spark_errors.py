"""What actions of Spark raise."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

#: Those of tasks come as Spark's gateway has them, where no Python worker had a part in it.
SPARK_ERRORS = (PySparkException, Py4JJavaError)
