"""One cluster for all tests, which are a story in the order of the files."""

from collections.abc import Iterator

import pytest

from tests.integration import cluster


@pytest.fixture(scope="session", autouse=True)
def ganeti() -> Iterator[None]:
    """The cluster."""
    if not cluster.here():
        pytest.skip("these tests are run by `make integration`")
    with cluster.cluster():
        yield
