# What the scripts share, for any POSIX shell. They set $component, their directory, and source this.

. "$component/conf/tfos-env.sh"
export HADOOP_USER_NAME HADOOP_CONF_DIR ${SPARK_HOME+SPARK_HOME} ${JAVA_HOME+JAVA_HOME}
# Another Python's, from a login shell, would win over $PYTHON.
unset PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH

# The comment at a script's beginning is its help.
if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
  echo "Settings are in $component/conf/tfos-env.sh."
  exit 0
fi

# submit PROGRAM [ARGUMENT]...: runs one of the programs on the cluster.
submit() {
  program=$1
  shift
  if [ ! -d "$HADOOP_CONF_DIR" ]; then
    echo "HADOOP_CONF_DIR=$HADOOP_CONF_DIR is not a directory: see $component/conf/tfos-env.sh" >&2
    exit 2
  fi
  files=$(printf ',%s' "$component"/programs/*.py)
  # Executors without a task still host a node: Spark must not take them away.
  # shellcheck disable=SC2086  # SUBMIT_OPTIONS are words.
  "$PYTHON" -P -m tfos.cli.submit --master "$MASTER" $SUBMIT_OPTIONS \
    --num-executors "$NODES" --conf "spark.cores.max=$NODES" --executor-cores 1 \
    --executor-memory "$EXECUTOR_MEMORY" --conf spark.dynamicAllocation.enabled=false \
    --py-files "${files#,}" "$component/programs/$program" "$@"
}
