"""Writes the small dense net of the benchmarks, 784 to 128 to 10, with its weights as NumPy's.

python make_model.py DIRECTORY
"""

import os
import sys

import numpy as np

import keras
import tfos.inference

directory = sys.argv[1]
keras.utils.set_random_seed(1)
model = keras.Sequential(
    [keras.layers.Input((784,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(10)]
)
model.export(directory, verbose=False)
w1, b1, w2, b2 = model.get_weights()
np.savez(os.path.join(directory, "weights.npz"), w1=w1, b1=b1, w2=w2, b2=b2)
(name,) = tfos.inference.Model(directory).inputs
with open(os.path.join(directory, "input_name.txt"), "w") as file:
    file.write(name)
