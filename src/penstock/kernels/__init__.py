"""Loops over bytes, in two implementations with the same results, and the choice between them."""

from penstock.kernels.choose import compile_beside as compile_beside
from penstock.kernels.choose import if_loaded as if_loaded
from penstock.kernels.choose import kernel as kernel
from penstock.kernels.choose import kernel_of as kernel_of
from penstock.kernels.choose import load as load
from penstock.kernels.choose import load_beside as load_beside
from penstock.kernels.choose import name as name
from penstock.kernels.choose import using as using

__all__ = ["compile_beside", "if_loaded", "kernel", "kernel_of", "load", "load_beside", "name", "using"]
