# Settings of the scripts in this directory, as lines of shell. The environment wins: MASTER=... ./prepare_mnist.sh

# Spark's master: yarn, or spark://HOST:7077. SPARK_HOME names another Spark than that of $PYTHON, of the same version.
: "${MASTER:=yarn}"
# The Python of the driver, and of the executors as long as this says so.
: "${PYTHON:=@PYTHON@}"
# --no-env: all hosts have $PYTHON. Where only this one has it: "--python-env DIRECTORY" of a virtual environment,
# which is packed once and sent along; "--env-directory hdfs:///..." keeps it there (tfos submit --help).
: "${SUBMIT_OPTIONS:=--no-env}"

# Nodes of TensorFlow, one of them a parameter server; each has an executor of one core.
: "${NODES:=3}"
: "${EXECUTOR_MEMORY:=1g}"

# Whose files they are on HDFS (without Kerberos), and where.
: "${HADOOP_USER_NAME:=$(id -un)}"
: "${HDFS_DIR:=/user/$HADOOP_USER_NAME}"
: "${HADOOP_CONF_DIR:=/usr/local/service/hadoop/etc/hadoop}"

# Where mnist_download.sh leaves the four .gz files and mnist.zip, and where it gets them: a directory with MNIST's .gz files, else this address.
: "${LOCAL_DIR:=$HOME/mnist}"
# Where prepare_mnist.sh finds mnist.zip on a host that has none in LOCAL_DIR.
: "${HDFS_ZIP:=/mnist/tools/mnist.zip}"
: "${MNIST:=}"
: "${MNIST_URL:=https://storage.googleapis.com/cvdf-datasets/mnist}"

# Files of the data, and how long to train.
: "${PARTITIONS:=10}"
: "${EPOCHS:=5}"
: "${BATCH_SIZE:=100}"
: "${STEPS:=1000}"
