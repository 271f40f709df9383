"""Memory for batches that is used again once nobody holds the batch any more.

Memory fresh from the system is handed over page by page while it is first written, which takes longer than augmenting
the images that go there: with 224 pixels a quarter of a millisecond per image on a virtual machine.
"""

import math
import weakref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MOST_KEPT = 6
"""Free pieces: the batch in use, those ahead of it, and some to spare."""


class Room:
    """Gives out tensors; for use from several threads."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.float32]] = []

    def empty(self, shape: tuple[int, ...]) -> Tensor:
        """A float32 tensor of undefined values; the memory is its holder's alone while anything refers to it."""
        count = math.prod(shape)
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(count, np.float32)
        if len(memory) < count:
            memory = np.empty(count, np.float32)
        array = memory[:count].reshape(shape)
        # The tensor keeps the array, and the array's end tells that no tensor is left that shares the memory.
        weakref.finalize(array, self._put_back, memory).atexit = False
        return torch.from_numpy(array)

    def clear(self) -> None:
        """Gives free memory back to the system."""
        self._free.clear()

    def _put_back(self, memory: NDArray[np.float32]) -> None:
        if len(self._free) < _MOST_KEPT:
            self._free.append(memory)
