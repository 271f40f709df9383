"""Joining a Ray cluster, or starting a private one on this machine."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


def connect() -> None:
    """Joins the cluster of RAY_ADDRESS if that is set (as in a submitted job), else starts one here; once a process.

    A search has hundreds of processes, so their output reaches the terminal only if HYPERSPHERICAL_RAY_LOGS is set.
    """
    import ray

    if ray.is_initialized():
        return
    options: dict[str, Any] = {"log_to_driver": bool(os.environ.get("HYPERSPHERICAL_RAY_LOGS"))}
    if not joined_cluster():
        options |= {"include_dashboard": False, "num_cpus": os.cpu_count()}
    ray.init(logging_level=logging.ERROR, **options)


def joined_cluster() -> bool:
    """Whether this process is part of a cluster that was there before it, and that may grow."""
    return bool(os.environ.get("RAY_ADDRESS"))


class ClusterExecutor(Executor):
    """Runs functions as Ray tasks of one CPU each, on whatever machines the cluster has."""

    def __init__(self) -> None:
        import ray

        connect()
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Starts `fn(*args, **kwargs)` somewhere; what it raises is raised by the future."""
        import ray

        if fn not in self._remote:
            self._remote[fn] = ray.remote(fn)
        result: Future[T] = self._remote[fn].remote(*args, **kwargs).future()
        return result
