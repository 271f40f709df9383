"""Tables and coefficients that are made once."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def constant(function: Callable[P, R]) -> Callable[P, R]:
    """Remember results; to the compiler a call is a constant, which it need not look into."""
    remembered = lru_cache(maxsize=256)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return remembered(*args, **kwargs)  # type: ignore[arg-type]

    result: Callable[P, R] = torch.compiler.assume_constant_result(call)
    return result
