"""``TFEstimator`` and ``TFModel``: Spark ML stages over ``TFCluster`` and
``tfos.inference.frames``."""

from __future__ import annotations

import copy
import types
from argparse import Namespace as ArgparseNamespace

from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters

from tensorflowonspark import TFCluster, util
from tfos import inference
from tfos.errors import BadInputError
from tfos.inference import frames
from tfos.ml.model import resolved


class TFTypeConverters:
    """Converters for parameters that hold dicts."""

    @staticmethod
    def toDict(value):
        if isinstance(value, dict):
            return value
        raise TypeError(f"{value!r} can't be converted to a dict")


def _param(name, doc, converter):
    return Param(Params._dummy(), name, doc, typeConverter=converter)


class HasBatchSize(Params):
    batch_size = _param("batch_size", "Number of records per batch", TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setBatchSize(self, value):
        return self._set(batch_size=value)

    def getBatchSize(self):
        return self.getOrDefault(self.batch_size)


class HasClusterSize(Params):
    cluster_size = _param("cluster_size", "Number of nodes in the cluster", TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setClusterSize(self, value):
        return self._set(cluster_size=value)

    def getClusterSize(self):
        return self.getOrDefault(self.cluster_size)


class HasEpochs(Params):
    epochs = _param("epochs", "Number of epochs to train", TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setEpochs(self, value):
        return self._set(epochs=value)

    def getEpochs(self):
        return self.getOrDefault(self.epochs)


class HasGraceSecs(Params):
    grace_secs = _param("grace_secs", "Seconds to wait after feeding, for programs that still write",
                        TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setGraceSecs(self, value):
        return self._set(grace_secs=value)

    def getGraceSecs(self):
        return self.getOrDefault(self.grace_secs)


class HasInputMapping(Params):
    input_mapping = _param("input_mapping", "Mapping of input DataFrame column to input tensor",
                           TFTypeConverters.toDict)

    def __init__(self):
        super().__init__()

    def setInputMapping(self, value):
        return self._set(input_mapping=value)

    def getInputMapping(self):
        return self.getOrDefault(self.input_mapping)


class HasInputMode(Params):
    input_mode = _param("input_mode", "Input data feeding mode, one of TFCluster.InputMode",
                        TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setInputMode(self, value):
        return self._set(input_mode=value)

    def getInputMode(self):
        return self.getOrDefault(self.input_mode)


class HasMasterNode(Params):
    master_node = _param("master_node", "Job name of the master/chief node",
                         TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setMasterNode(self, value):
        return self._set(master_node=value)

    def getMasterNode(self):
        return self.getOrDefault(self.master_node)


class HasModelDir(Params):
    model_dir = _param("model_dir", "Path to save/load model checkpoints", TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setModelDir(self, value):
        return self._set(model_dir=value)

    def getModelDir(self):
        return self.getOrDefault(self.model_dir)


class HasNumPS(Params):
    num_ps = _param("num_ps", "Number of parameter server nodes in the cluster",
                    TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setNumPS(self, value):
        return self._set(num_ps=value)

    def getNumPS(self):
        return self.getOrDefault(self.num_ps)


class HasDriverPSNodes(Params):
    driver_ps_nodes = _param("driver_ps_nodes", "Run parameter server nodes on the driver",
                             TypeConverters.toBoolean)

    def __init__(self):
        super().__init__()

    def setDriverPSNodes(self, value):
        return self._set(driver_ps_nodes=value)

    def getDriverPSNodes(self):
        return self.getOrDefault(self.driver_ps_nodes)


class HasOutputMapping(Params):
    output_mapping = _param("output_mapping", "Mapping of output tensor to output DataFrame column",
                            TFTypeConverters.toDict)

    def __init__(self):
        super().__init__()

    def setOutputMapping(self, value):
        return self._set(output_mapping=value)

    def getOutputMapping(self):
        return self.getOrDefault(self.output_mapping)


class HasProtocol(Params):
    protocol = _param("protocol", "Network protocol between TensorFlow's own servers",
                      TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setProtocol(self, value):
        return self._set(protocol=value)

    def getProtocol(self):
        return self.getOrDefault(self.protocol)


class HasReaders(Params):
    readers = _param("readers", "Number of readers and queues of the program's own input",
                     TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setReaders(self, value):
        return self._set(readers=value)

    def getReaders(self):
        return self.getOrDefault(self.readers)


class HasSteps(Params):
    steps = _param("steps", "Maximum number of steps to train", TypeConverters.toInt)

    def __init__(self):
        super().__init__()

    def setSteps(self, value):
        return self._set(steps=value)

    def getSteps(self):
        return self.getOrDefault(self.steps)


class HasTensorboard(Params):
    tensorboard = _param("tensorboard", "Launch TensorBoard beside the chief",
                         TypeConverters.toBoolean)

    def __init__(self):
        super().__init__()

    def setTensorboard(self, value):
        return self._set(tensorboard=value)

    def getTensorboard(self):
        return self.getOrDefault(self.tensorboard)


class HasTFRecordDir(Params):
    tfrecord_dir = _param("tfrecord_dir", "Path to temporarily export a DataFrame as TFRecords",
                          TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setTFRecordDir(self, value):
        return self._set(tfrecord_dir=value)

    def getTFRecordDir(self):
        return self.getOrDefault(self.tfrecord_dir)


class HasExportDir(Params):
    export_dir = _param("export_dir", "Directory to export the SavedModel to, or to load it from",
                        TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setExportDir(self, value):
        return self._set(export_dir=value)

    def getExportDir(self):
        return self.getOrDefault(self.export_dir)


class HasSignatureDefKey(Params):
    signature_def_key = _param("signature_def_key", "Identifier of the signature of a SavedModel",
                               TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setSignatureDefKey(self, value):
        return self._set(signature_def_key=value)

    def getSignatureDefKey(self):
        return self.getOrDefault(self.signature_def_key)


class HasTagSet(Params):
    tag_set = _param("tag_set", "Comma-separated tags of the graph of a SavedModel",
                     TypeConverters.toString)

    def __init__(self):
        super().__init__()

    def setTagSet(self, value):
        return self._set(tag_set=value)

    def getTagSet(self):
        return self.getOrDefault(self.tag_set)


class Namespace:
    """Attributes that are also iterated over and looked up, made of a dict, a Namespace (of this
    module or argparse), or a list of arguments, which it keeps as ``argv``."""

    argv = None

    def __init__(self, d):
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, dict):
            self.__dict__.update(d)
        elif isinstance(d, (Namespace, ArgparseNamespace, types.SimpleNamespace)):
            self.__dict__.update(vars(d))
        else:
            raise Exception(f"Unsupported Namespace args: {d!r}")

    def __iter__(self):
        return iter(self.__dict__)

    def __contains__(self, key):
        return key in self.__dict__

    def __repr__(self):
        return repr(self.__dict__)

    def __eq__(self, other):
        if isinstance(other, Namespace):
            return self.__dict__ == other.__dict__
        return NotImplemented

    __hash__ = None


class TFParams(Params):
    """Parameters of Spark ML beside the arguments of a program."""

    args = None

    def merge_args_params(self):
        """The arguments, with the values of the parameters over them."""
        merged = copy.copy(self.args)
        for param in self.params:
            if self.isDefined(param):
                setattr(merged, param.name, self.getOrDefault(param))
        return merged


class TFEstimator(Estimator, TFParams, HasBatchSize, HasClusterSize, HasDriverPSNodes, HasEpochs,
                  HasExportDir, HasGraceSecs, HasInputMapping, HasInputMode, HasMasterNode, HasModelDir,
                  HasNumPS, HasProtocol, HasReaders, HasSteps, HasTensorboard, HasTFRecordDir):
    """Trains with ``train_fn(args, ctx)`` on a cluster; ``fit`` returns a :class:`TFModel`.

    ``export_fn(args)``, if there is one, runs in an executor afterwards.
    """

    def __init__(self, train_fn, tf_args, export_fn=None):
        super().__init__()
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self.export_fn = export_fn
        self._setDefault(
            batch_size=100, cluster_size=1, driver_ps_nodes=False, epochs=1, export_dir=None,
            grace_secs=30, input_mapping={}, input_mode=TFCluster.InputMode.SPARK,
            master_node="chief", model_dir=None, num_ps=0, protocol="grpc", readers=1, steps=1000,
            tensorboard=False, tfrecord_dir=None)

    def _fit(self, dataset):
        spark = dataset.sparkSession
        args = self.merge_args_params()
        # A program that parses its own command line gets that.
        program_args = self.args.argv if self.args.argv else args
        cluster = TFCluster.run(
            spark.sparkContext, self.train_fn, program_args, args.cluster_size, args.num_ps,
            tensorboard=args.tensorboard, input_mode=args.input_mode,
            driver_ps_nodes=args.driver_ps_nodes, master_node=args.master_node)
        if args.input_mode == TFCluster.InputMode.SPARK:
            cluster.train(dataset.select(sorted(args.input_mapping)).rdd, args.epochs)
        cluster.shutdown(grace_secs=args.grace_secs)
        if self.export_fn is not None:
            if not args.export_dir:
                raise BadInputError("export_fn needs export_dir: where it is to write")
            task = _ExportTask(self.export_fn, program_args)
            spark.sparkContext.parallelize([None], 1).foreachPartition(task)
        return self._copyValues(TFModel(self.args))


class _ExportTask:
    """Runs an ``export_fn`` in an executor. Pickled to it."""

    def __init__(self, export_fn, args):
        self._export_fn = export_fn
        self._args = args

    def __call__(self, rows):
        util.single_node_env()
        self._export_fn(self._args)


class TFModel(Model, TFParams, HasBatchSize, HasExportDir, HasInputMapping, HasModelDir,
              HasOutputMapping, HasSignatureDefKey, HasTagSet):
    """Runs the rows of a DataFrame through a SavedModel, which stays loaded in each Python worker.

    The result has the columns of ``output_mapping`` only, in the order of its keys. Strings are
    bytes, as TensorFlow has them.
    """

    def __init__(self, tf_args):
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(batch_size=100, export_dir=None, input_mapping={}, model_dir=None,
                         output_mapping={}, signature_def_key=None, tag_set=None)

    def _transform(self, dataset):
        args = self.merge_args_params()
        directory = args.export_dir or args.model_dir
        if not directory:
            raise BadInputError("set export_dir (or model_dir): the directory of the SavedModel")
        spark = dataset.sparkSession
        model = inference.Model(
            resolved(spark, directory), args.tag_set or inference.DEFAULT_TAGS,
            args.signature_def_key or inference.DEFAULT_SIGNATURE,
            threads=frames.task_threads(spark))
        outputs = dict(sorted(args.output_mapping.items()))
        if not outputs:
            raise BadInputError(f"output_mapping is empty; the model has {', '.join(model.outputs)}")
        strings = [name for name in outputs if model.outputs.get(name, "").startswith("string")]
        return frames.transform(
            dataset, model, dict(sorted(args.input_mapping.items())), outputs,
            binary_outputs=strings, batch_size=args.batch_size, keep=False)
