"""The API of TensorFlowOnSpark 2.2.5 on top of ``tfos``, for programs written for it.

Modules here only translate names and arguments. New programs use ``tfos`` itself.
"""

#: The version whose API this is; programs compare it.
__version__ = "2.2.5"
