"""Shared by all tests: a prepared tiny real data set, configurations small enough for it, one Ray per session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# Two workers of a test run must not fight over the cores with OpenMP threads.
os.environ.setdefault("OMP_NUM_THREADS", "2")


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with scikit-learn's 1,797 handwritten digits prepared."""
    from data_prep.prepare import prepare

    root = tmp_path_factory.mktemp("data")
    prepare("digits", root, None)
    return root


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One private Ray for the whole session: starting it costs seconds."""
    import ray

    from pipelines.ray_cluster import connect

    connect()
    yield
    ray.shutdown()
