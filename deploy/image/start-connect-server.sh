#!/bin/sh
# Spark's server for Connect, where the Spark operator looks for it: pyspark brings no such script.
set -eu
exec "$SPARK_HOME/bin/spark-submit" --class org.apache.spark.sql.connect.service.SparkConnectServer \
  --name "Spark Connect" "$@" spark-internal
