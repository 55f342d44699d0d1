"""Writes a model in the format Q4_0: `quantize.py FROM TO`.

The package carries Q4_1, which llama.cpp multiplies without its fast kernels on processors that have AVX2 only. Q4_0 is
read about twice as fast, and what this model says is not what the runs are about.
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
