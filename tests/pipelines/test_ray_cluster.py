import pytest

from pipelines.ray_cluster import ClusterExecutor


def half(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


def test_functions_run_as_tasks_and_their_errors_come_back(ray_session: None) -> None:
    executor = ClusterExecutor()
    assert executor.workers >= 1
    futures = [executor.submit(half, number) for number in (2, 4, 5)]
    assert [future.result(timeout=60) for future in futures[:2]] == [1, 2]
    with pytest.raises(ValueError, match="5 is odd"):
        futures[2].result(timeout=60)
