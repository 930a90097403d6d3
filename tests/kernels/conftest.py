"""Run a test once with each kernel, in each of its ways."""

from collections.abc import Iterator

import pytest

from tests.kernels.ways import WAYS, by


@pytest.fixture(params=WAYS)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    with by(request.param):
        yield request.param
