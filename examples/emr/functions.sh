# What the scripts share. Sourced by them; does nothing by itself.

component=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$component/conf/tfos-env.sh"
export HADOOP_USER_NAME HADOOP_CONF_DIR ${SPARK_HOME+SPARK_HOME} ${JAVA_HOME+JAVA_HOME}
# Another Python's, from a login shell, would win over $PYTHON.
unset PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH

# The comment at a script's beginning is its help.
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
  echo "Settings are in $component/conf/tfos-env.sh."
  exit 0
fi

# submit PROGRAM [ARGUMENT]...: runs one of the programs on the cluster.
submit() {
  local program=$1 files
  shift
  [[ -d $HADOOP_CONF_DIR ]] || {
    echo "HADOOP_CONF_DIR=$HADOOP_CONF_DIR is no directory: see $component/conf/tfos-env.sh" >&2
    exit 2
  }
  files=$(printf ',%s' "$component"/programs/*.py)
  # Executors without a task have a node all the same: Spark must not take them away.
  # shellcheck disable=SC2086  # SUBMIT_OPTIONS are words.
  "$PYTHON" -m tfos.cli.submit --master "$MASTER" $SUBMIT_OPTIONS \
    --num-executors "$NODES" --conf "spark.cores.max=$NODES" --executor-cores 1 \
    --executor-memory "$EXECUTOR_MEMORY" --conf spark.dynamicAllocation.enabled=false \
    --py-files "${files#,}" "$component/programs/$program" "$@"
}
