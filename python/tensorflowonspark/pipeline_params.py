"""The parameters of ``pipeline``'s stages, a class for each as programs mix them into theirs."""

from __future__ import annotations

from pyspark.ml.param import Param, Params, TypeConverters


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
    grace_secs = _param(
        "grace_secs",
        "Seconds to wait after feeding, for programs that still write",
        TypeConverters.toInt,
    )

    def __init__(self):
        super().__init__()

    def setGraceSecs(self, value):
        return self._set(grace_secs=value)

    def getGraceSecs(self):
        return self.getOrDefault(self.grace_secs)


class HasInputMapping(Params):
    input_mapping = _param(
        "input_mapping",
        "Mapping of input DataFrame column to input tensor",
        TFTypeConverters.toDict,
    )

    def __init__(self):
        super().__init__()

    def setInputMapping(self, value):
        return self._set(input_mapping=value)

    def getInputMapping(self):
        return self.getOrDefault(self.input_mapping)


class HasInputMode(Params):
    input_mode = _param(
        "input_mode", "Input data feeding mode, one of TFCluster.InputMode", TypeConverters.toInt
    )

    def __init__(self):
        super().__init__()

    def setInputMode(self, value):
        return self._set(input_mode=value)

    def getInputMode(self):
        return self.getOrDefault(self.input_mode)


class HasMasterNode(Params):
    master_node = _param(
        "master_node", "Job name of the master/chief node", TypeConverters.toString
    )

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
    num_ps = _param(
        "num_ps", "Number of parameter server nodes in the cluster", TypeConverters.toInt
    )
    driver_ps_nodes = _param(
        "driver_ps_nodes", "Run parameter server nodes on the driver", TypeConverters.toBoolean
    )

    def __init__(self):
        super().__init__()

    def setNumPS(self, value):
        return self._set(num_ps=value)

    def getNumPS(self):
        return self.getOrDefault(self.num_ps)

    def setDriverPSNodes(self, value):
        return self._set(driver_ps_nodes=value)

    def getDriverPSNodes(self):
        return self.getOrDefault(self.driver_ps_nodes)


class HasOutputMapping(Params):
    output_mapping = _param(
        "output_mapping",
        "Mapping of output tensor to output DataFrame column",
        TFTypeConverters.toDict,
    )

    def __init__(self):
        super().__init__()

    def setOutputMapping(self, value):
        return self._set(output_mapping=value)

    def getOutputMapping(self):
        return self.getOrDefault(self.output_mapping)


class HasProtocol(Params):
    protocol = _param(
        "protocol", "Network protocol between TensorFlow's own servers", TypeConverters.toString
    )

    def __init__(self):
        super().__init__()

    def setProtocol(self, value):
        return self._set(protocol=value)

    def getProtocol(self):
        return self.getOrDefault(self.protocol)


class HasReaders(Params):
    readers = _param(
        "readers", "Number of readers and queues of the program's own input", TypeConverters.toInt
    )

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
    tensorboard = _param(
        "tensorboard", "Launch TensorBoard beside the chief", TypeConverters.toBoolean
    )

    def __init__(self):
        super().__init__()

    def setTensorboard(self, value):
        return self._set(tensorboard=value)

    def getTensorboard(self):
        return self.getOrDefault(self.tensorboard)


class HasTFRecordDir(Params):
    tfrecord_dir = _param(
        "tfrecord_dir",
        "Path to temporarily export a DataFrame as TFRecords",
        TypeConverters.toString,
    )

    def __init__(self):
        super().__init__()

    def setTFRecordDir(self, value):
        return self._set(tfrecord_dir=value)

    def getTFRecordDir(self):
        return self.getOrDefault(self.tfrecord_dir)


class HasExportDir(Params):
    export_dir = _param(
        "export_dir",
        "Directory to export the SavedModel to, or to load it from",
        TypeConverters.toString,
    )

    def __init__(self):
        super().__init__()

    def setExportDir(self, value):
        return self._set(export_dir=value)

    def getExportDir(self):
        return self.getOrDefault(self.export_dir)


class HasSignatureDefKey(Params):
    signature_def_key = _param(
        "signature_def_key", "Identifier of the signature of a SavedModel", TypeConverters.toString
    )

    def __init__(self):
        super().__init__()

    def setSignatureDefKey(self, value):
        return self._set(signature_def_key=value)

    def getSignatureDefKey(self):
        return self.getOrDefault(self.signature_def_key)


class HasTagSet(Params):
    tag_set = _param(
        "tag_set", "Comma-separated tags of the graph of a SavedModel", TypeConverters.toString
    )

    def __init__(self):
        super().__init__()

    def setTagSet(self, value):
        return self._set(tag_set=value)

    def getTagSet(self):
        return self.getOrDefault(self.tag_set)
