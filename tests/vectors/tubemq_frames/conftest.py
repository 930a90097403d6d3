"""Run a test once with each kernel."""

from collections.abc import Iterator

import pytest

from penstock import kernels


@pytest.fixture(params=["pure", "numba"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    with kernels.using(request.param):
        yield request.param
