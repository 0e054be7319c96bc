"""Writes SavedModels of all kinds into a directory: ``python make_models.py DIRECTORY``.

A process of its own, so that the tests of what runs them can do without TensorFlow's Python.
"""

import os
import subprocess
import sys

#: An op of a library of its own, through TensorFlow's C ABI: each number and one more.
OP_SOURCE = r"""
#include <cstddef>
#include <cstdint>
struct TF_Status; struct TF_OpDefinitionBuilder; struct TF_KernelBuilder; struct TF_OpKernelContext;
struct TF_OpKernelConstruction; struct TF_ShapeInferenceContext; struct TF_Tensor;
extern "C" {
TF_Status* TF_NewStatus(); void TF_DeleteStatus(TF_Status*);
TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char*);
void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder*, const char*);
void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder*, const char*);
void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder*, void (*)(TF_ShapeInferenceContext*, TF_Status*));
void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext*, TF_Status*);
void TF_RegisterOpDefinition(TF_OpDefinitionBuilder*, TF_Status*);
TF_KernelBuilder* TF_NewKernelBuilder(const char*, const char*, void* (*)(TF_OpKernelConstruction*),
                                      void (*)(void*, TF_OpKernelContext*), void (*)(void*));
void TF_RegisterKernelBuilder(const char*, TF_KernelBuilder*, TF_Status*);
void TF_GetInput(TF_OpKernelContext*, int, TF_Tensor**, TF_Status*);
TF_Tensor* TF_AllocateOutput(TF_OpKernelContext*, int, int, const std::int64_t*, int, std::size_t, TF_Status*);

void* TF_TensorData(const TF_Tensor*); std::int64_t TF_Dim(const TF_Tensor*, int);
void TF_DeleteTensor(TF_Tensor*);
}
static void Compute(void*, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* in = nullptr;
  TF_GetInput(context, 0, &in, status);
  const std::int64_t rows = TF_Dim(in, 0);
  TF_Tensor* out = TF_AllocateOutput(context, 0, 9, &rows, 1, rows * 8, status);
  for (std::int64_t i = 0; i < rows; ++i) {
    static_cast<std::int64_t*>(TF_TensorData(out))[i] = static_cast<std::int64_t*>(TF_TensorData(in))[i] + 1;
  }
  TF_DeleteTensor(out); TF_DeleteTensor(in); TF_DeleteStatus(status);
}
__attribute__((constructor)) static void Register() {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("TestOneMore");
  TF_OpDefinitionBuilderAddInput(op, "x: int64");
  TF_OpDefinitionBuilderAddOutput(op, "y: int64");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, &TF_ShapeInferenceContextSetUnknownShape);
  TF_RegisterOpDefinition(op, status);
  TF_RegisterKernelBuilder("TestOneMore", TF_NewKernelBuilder(
      "TestOneMore", "CPU", [](TF_OpKernelConstruction*) -> void* { return nullptr; }, &Compute,
      [](void*) {}), status);
  TF_DeleteStatus(status);
}
"""


def main(directory):
    import numpy as np
    import tensorflow as tf

    import keras

    def path(name):
        return os.path.join(directory, name)

    # Keras: logits of 4 numbers, and what they must be.
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)]
    )
    model.export(path("keras"), verbose=False)
    x = np.random.default_rng(1).random((100, 4), np.float32)
    np.savez(path("keras.npz"), x=x, y=model(x).numpy())

    vocabulary = path("vocabulary.txt")
    with open(vocabulary, "w") as file:
        file.write("red\ngreen\nblue\n")

    class Text(tf.Module):
        """Strings, several outputs, and a table that is filled from an asset when it is loaded."""

        def __init__(self):
            super().__init__()
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    vocabulary,
                    tf.string,
                    tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64,
                    tf.lookup.TextFileIndex.LINE_NUMBER,
                ),
                -1,
            )

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.string, name="word"),
                tf.TensorSpec([None, 2], tf.int32, name="pair"),
            ]
        )
        def serve(self, word, pair):
            return {
                "upper": tf.strings.upper(word),
                "index": self.table.lookup(word),
                "half": tf.cast(pair, tf.float16) / 2,
                "small": tf.cast(pair[:, 0], tf.uint8),
                "first_is_more": pair[:, 0] > pair[:, 1],
                "outer": pair[:, :, None] * pair[:, None, :],
                "bytes": tf.strings.join([word, tf.constant(b"\xff")]),
            }

    text = Text()
    tf.saved_model.save(
        text, path("text"), signatures={"serving_default": text.serve, "other": text.serve}
    )

    class Others(tf.Module):
        @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])
        def ragged(self, ids):
            return {"sum": tf.reduce_sum(ids, axis=1)}

        @tf.function(input_signature=[tf.TensorSpec([4, 2], tf.float32, name="x")])
        def fixed(self, x):
            return {"sum": tf.reduce_sum(x, axis=1), "rows": tf.fill([4], tf.shape(x)[0])}

        @tf.function(input_signature=[tf.TensorSpec([4, 2], tf.float32, name="x")])
        def fixed_ones(self, x):
            one = tf.reduce_sum(x, axis=1, keepdims=True)
            return {"one": one, "nested": one[:, None]}

        @tf.function(input_signature=[tf.TensorSpec([None, 2, 3, 1], tf.uint8, name="image")])
        def image(self, image):
            return {
                "mean": tf.reduce_mean(tf.cast(image, tf.float32), axis=[1, 2, 3]),
                "top": image[:, 0, :, 0],
            }

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def bad(self, x):
            return {"one": tf.reduce_sum(x, keepdims=True)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="n")])
        def varying(self, n):
            return {"range": tf.tile(n[:, None], [1, tf.cast(tf.reduce_max(n), tf.int32)])}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.float32, name="x"),
                tf.TensorSpec([None], tf.float32, name="y"),
            ]
        )
        def two(self, x, y):
            return {"difference": x - y, "rows": tf.fill(tf.shape(x), tf.shape(x)[0])}

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.string, name="pair")])
        def join(self, pair):
            return {"joined": tf.strings.reduce_join(pair, axis=1, separator="-"), "pair": pair}

        @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.string)])
        def ragged_join(self, words):
            return {"joined": tf.strings.reduce_join(words, axis=1, separator="-")}

        @tf.function(input_signature=[tf.TensorSpec([4, 2], tf.string, name="pair")])
        def fixed_join(self, pair):
            return {"joined": tf.strings.reduce_join(pair, axis=1, separator="-")}

    others = Others()
    names = (
        "ragged",
        "fixed",
        "fixed_ones",
        "image",
        "bad",
        "varying",
        "two",
        "join",
        "ragged_join",
        "fixed_join",
    )
    tf.saved_model.save(
        others, path("others"), signatures={name: getattr(others, name) for name in names}
    )

    # TensorFlow 1: a graph with a variable, under tags of its own.
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        fed = v1.placeholder(tf.float32, [None, 2], "x")
        weight = v1.get_variable("w", initializer=tf.constant([[2.0], [3.0]]), use_resource=False)
        out = tf.matmul(fed, weight)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(path("tf1"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve", "old"],
            {
                "predict": v1.saved_model.signature_def_utils.predict_signature_def(
                    {"x": fed}, {"y": out}
                )
            },
        )
        builder.save()

    source, library = path("one_more.cc"), path("one_more.so")
    with open(source, "w") as file:
        file.write(OP_SOURCE)
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-O1", source, "-o", library, *tf.sysconfig.get_link_flags()],
        check=True,
    )
    ops = tf.load_op_library(library)

    class Custom(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="n")])
        def serve(self, n):
            more = ops.test_one_more(x=n)
            more.set_shape([None])
            return {"more": more}

    custom = Custom()
    tf.saved_model.save(custom, path("custom"), signatures=custom.serve)


if __name__ == "__main__":
    main(sys.argv[1])
