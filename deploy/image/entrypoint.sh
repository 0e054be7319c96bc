#!/bin/sh
# What a container of this image runs. Spark's pods on Kubernetes are started with the word `driver`
# or `executor`, and with environment variables of Spark's; anything else is a command of its own.
set -eu

# A platform may run the image under a number of its own, as OpenShift does. Hadoop's client and Python
# need a name for it, and a home.
if ! getent passwd "$(id -u)" >/dev/null; then
  export HOME=/home/spark
  if [ -w /etc/passwd ]; then
    echo "uid-$(id -u):x:$(id -u):$(id -g):Spark:$HOME:/bin/sh" >>/etc/passwd
  fi
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
role=${1:-}

case $role in
  driver)
    shift
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
  executor)
    # Spark's options for Java are variables SPARK_JAVA_OPT_0, _1 and so on, each one word.
    set --
    number=0
    while value=$(printenv "SPARK_JAVA_OPT_$number"); do
      set -- "$@" "$value"
      number=$((number + 1))
    done
    # Spark mounts the Hadoop configuration of the submission, and names it in HADOOP_CONF_DIR.
    classpath=${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:-$SPARK_HOME/conf}
    classpath=$classpath${HADOOP_CONF_DIR:+:$HADOOP_CONF_DIR}:$SPARK_HOME/jars/*
    classpath=$classpath${SPARK_DIST_CLASSPATH:+:$SPARK_DIST_CLASSPATH}:.
    exec tini -s -- "$java" "$@" \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "$classpath" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec tini -s -- "$@"
    ;;
esac
