"""Converts a model to the format Q4_0: `quantize.py FROM TO`.

The package contains Q4_1, for which llama.cpp has no fast kernels on processors with only AVX2. Q4_0 is about twice as
fast, and the quality of the model's answers does not matter for these runs.
"""

import ctypes
import sys

import llama_cpp


def main() -> int:
    source, target = sys.argv[1:]
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    parameters.allow_requantize = True
    return llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters))


if __name__ == "__main__":
    sys.exit(main())
