"""``python -m penstock.kernels.warm``: compile now, in a process of its own, what the first reader would wait for.

Done in no time where it has been done before, without importing numba. What must not live here: when that pays.
"""

from penstock.kernels.choose import warm

if __name__ == "__main__":
    warm()
