"""``TFEstimator`` and ``TFModel``: Spark ML stages over ``TFCluster`` and
``tfos.inference.frames``."""

from __future__ import annotations

import codecs
import copy
import hashlib
import posixpath
import re
import types
import uuid
from argparse import Namespace as ArgparseNamespace

from pyspark.ml import Estimator, Model
from pyspark.ml.param import Params
from pyspark.sql import functions
from pyspark.sql import types as sql_types

from tfos import inference
from tfos.errors import BadInputError
from tfos.files import hadoop_settings
from tfos.files.access import access_for
from tfos.inference import frames, saved_model
from tfos.ml.model import resolved
from tfos.parallel import hadoop

from . import TFCluster, util
from .pipeline_params import (
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasOutputMapping,
    HasProtocol,
    HasReaders,
    HasSignatureDefKey,
    HasSteps,
    HasTagSet,
    HasTensorboard,
    HasTFRecordDir,
)
from .pipeline_params import TFTypeConverters as TFTypeConverters  # programs import it from here


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


class TFEstimator(
    Estimator,
    TFParams,
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasProtocol,
    HasReaders,
    HasSteps,
    HasTensorboard,
    HasTFRecordDir,
):
    """Trains with ``train_fn(args, ctx)`` on a cluster; ``fit`` returns a :class:`TFModel`.

    ``export_fn(args)``, if there is one, runs in an executor afterwards.
    """

    def __init__(self, train_fn, tf_args, export_fn=None):
        super().__init__()
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self.export_fn = export_fn
        self._setDefault(
            batch_size=100,
            cluster_size=1,
            driver_ps_nodes=False,
            epochs=1,
            export_dir=None,
            grace_secs=30,
            input_mapping={},
            input_mode=TFCluster.InputMode.SPARK,
            master_node="chief",
            model_dir=None,
            num_ps=0,
            protocol="grpc",
            readers=1,
            steps=1000,
            tensorboard=False,
            tfrecord_dir=None,
        )

    def _fit(self, dataset):
        spark = dataset.sparkSession
        args = self.merge_args_params()
        if self.export_fn is not None and not args.export_dir:
            raise BadInputError("export_fn needs export_dir: where it is to write")
        # A program that parses its own command line gets that.
        program_args = self.args.argv if self.args.argv else args
        cluster = TFCluster.run(
            spark.sparkContext,
            self.train_fn,
            program_args,
            args.cluster_size,
            args.num_ps,
            tensorboard=args.tensorboard,
            input_mode=args.input_mode,
            driver_ps_nodes=args.driver_ps_nodes,
            master_node=args.master_node,
        )
        with cluster.cluster:  # No node stays behind when feeding fails.
            if args.input_mode == TFCluster.InputMode.SPARK:
                cluster.train(dataset.select(sorted(args.input_mapping)).rdd, args.epochs)
            cluster.shutdown(grace_secs=args.grace_secs)
        if self.export_fn is not None:
            settings = hadoop_settings.of_session(spark.sparkContext)
            task = _ExportTask(self.export_fn, program_args, settings)
            spark.sparkContext.parallelize([None], 1).foreachPartition(task)
        return self._copyValues(TFModel(self.args))


class _ExportTask:
    """Runs an ``export_fn`` in an executor. Pickled to it."""

    def __init__(self, export_fn, args, hadoop_environment):
        self._export_fn = export_fn
        self._args = args
        self._hadoop_environment = hadoop_environment

    def __call__(self, rows):
        hadoop.adopt(self._hadoop_environment)
        util.single_node_env()
        self._export_fn(self._args)


def _contents_of_last(listing, directory):
    """What tells the last checkpoint of a directory from others of its name: its graph, and its
    index, which has a CRC of each variable. Empty where they are not there.

    ``listing`` is what the file ``checkpoint`` has in it: protobuf's text, with its escapes.
    """
    found = re.search(rb'^model_checkpoint_path: "(.*)"', listing, re.MULTILINE)
    if found is None:
        return []
    name = codecs.escape_decode(found[1])[0].decode(errors="surrogateescape")
    contents = []
    for suffix in (".index", ".meta"):
        access, path = access_for(posixpath.join(directory, name) + suffix)
        if access.status(path) is not None:
            with access.open(path) as file:
                contents.append(file.read())
    return contents


def _saved_model_of(directory, inputs, outputs):
    """The directory of a SavedModel for ``model_dir``: that itself, or, where it has a checkpoint
    of TensorFlow 1 instead, one below it. It is made once for each checkpoint and pair of mappings,
    in the place of the checkpoint, as all executors reach that. Another checkpoint of the same name
    is another one."""
    access, path = access_for(directory)
    listed = f"{path}/checkpoint"
    if access.status(f"{path}/saved_model.pb") is not None or access.status(listed) is None:
        return directory
    with access.open(listed) as file:
        listing = file.read()
    wanted = [listing, sorted(inputs), sorted(outputs), *_contents_of_last(listing, path)]
    name = f"saved_model-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]}"
    if access.status(f"{path}/{name}/saved_model.pb") is None:
        import tfos.tensorflow  # noqa: F401  (hdfs:// in this process)

        unfinished = f"{name}.{uuid.uuid4().hex}"
        try:
            saved_model.export_checkpoint(directory, f"{directory}/{unfinished}", inputs, outputs)
            access.rename(f"{path}/{unfinished}", f"{path}/{name}")
        except OSError:
            # Another driver, which wanted the same, may have been faster.
            if access.status(f"{path}/{name}/saved_model.pb") is None:
                raise
        finally:
            access.delete(f"{path}/{unfinished}")
    return f"{directory}/{name}"


class TFModel(
    Model,
    TFParams,
    HasBatchSize,
    HasExportDir,
    HasInputMapping,
    HasModelDir,
    HasOutputMapping,
    HasSignatureDefKey,
    HasTagSet,
):
    """Runs the rows of a DataFrame through a SavedModel, which stays loaded in each Python worker.

    The result has the columns of ``output_mapping`` only, in the order of its keys. Strings are
    bytes, as TensorFlow has them.
    """

    def __init__(self, tf_args):
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(
            batch_size=100,
            export_dir=None,
            input_mapping={},
            model_dir=None,
            output_mapping={},
            signature_def_key=None,
            tag_set=None,
        )

    def _transform(self, dataset):
        args = self.merge_args_params()
        directory = args.export_dir or args.model_dir
        if not directory:
            raise BadInputError("set export_dir (or model_dir): the directory of the SavedModel")
        spark = dataset.sparkSession
        directory = resolved(spark, directory)
        if not args.export_dir:
            directory = _saved_model_of(directory, args.input_mapping.values(), args.output_mapping)
        model = inference.Model(
            directory,
            args.tag_set or inference.DEFAULT_TAGS,
            args.signature_def_key or inference.DEFAULT_SIGNATURE,
            threads=frames.task_threads(spark),
        )
        outputs = dict(sorted(args.output_mapping.items()))
        if not outputs:
            raise BadInputError(
                f"output_mapping is empty; the model has {', '.join(model.outputs)}"
            )
        strings = [name for name in outputs if model.outputs.get(name, "").startswith("string")]
        result = frames.transform(
            dataset,
            model,
            dict(sorted(args.input_mapping.items())),
            outputs,
            binary_outputs=strings,
            batch_size=args.batch_size,
            keep=False,
        )
        return result.select(
            *(
                functions.col(frames.quoted(field.name)).cast(_as_of_python(field.dataType))
                for field in result.schema.fields
            )
        ).toDF(*result.columns)


def _as_of_python(kind):
    """The type that Spark finds for values that were Python's own, as in 2.2.5."""
    if isinstance(kind, sql_types.ArrayType):
        return sql_types.ArrayType(_as_of_python(kind.elementType))
    if isinstance(kind, sql_types.FloatType):
        return sql_types.DoubleType()
    if isinstance(kind, sql_types.IntegralType):
        return sql_types.LongType()
    return kind
