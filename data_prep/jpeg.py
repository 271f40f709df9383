"""JPEG decoding by the libjpeg-turbo that ffcv is linked with: to the bit as PIL decodes, and without Python's lock.

ffcv's own function never frees the library's handles, of which it makes two per thread, and uses a coarser transform
(about one grey level off on average) that is hardly faster.
"""

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ffcv_import import import_ffcv

_RGB, _WARNING = 0, 0
_HARMLESS = ("extraneous bytes", "JFIF revision", "Adobe color transform")
"""Warnings after which the image is whole nevertheless; all others mean that part of it is grey or garbled."""


class JpegError(ValueError):
    """Bytes that are not the JPEG image that was expected; the message says why, without a subject."""


def decode(address: int, size: int, height: int, width: int) -> NDArray[np.uint8]:
    """Decodes a JPEG file that lies in memory, grey ones too: uint8 (height, width, 3).

    The array is the thread's own and overwritten by its next call.

    Raises:
        JpegError: the image is damaged, cut short, has four colours, or is not of this height and width.
    """
    if not hasattr(_of_thread, "decompressor"):
        _of_thread.decompressor = _Decompressor()
    decompressor: _Decompressor = _of_thread.decompressor
    return decompressor.decode(address, size, height, width)


class _Decompressor:
    """A handle of the library and room for an image; both go with the thread."""

    def __init__(self) -> None:
        self._library = _library()
        self._handle = ctypes.c_void_p(self._library.tjInitDecompress())
        self._room = np.empty(0, np.uint8)

    def decode(self, address: int, size: int, height: int, width: int) -> NDArray[np.uint8]:
        found = [ctypes.c_int() for _ in range(4)]
        outcome = self._library.tjDecompressHeader3(self._handle, address, size, *map(ctypes.byref, found))
        if outcome != 0:
            self._judge()
        found_width, found_height = found[0].value, found[1].value
        if (found_height, found_width) != (height, width):
            raise JpegError(f"has {found_height} x {found_width} pixels, not {height} x {width}")
        if self._room.size < height * width * 3:
            self._room = np.empty(height * width * 3, np.uint8)
        room = self._room.ctypes.data
        if self._library.tjDecompress2(self._handle, address, size, room, width, 0, height, _RGB, 0) != 0:
            self._judge()
        return self._room[: height * width * 3].reshape(height, width, 3)

    def _judge(self) -> None:
        message = self._library.tjGetErrorStr2(self._handle).decode("ascii", "replace")
        harmless = any(part in message for part in _HARMLESS)
        if self._library.tjGetErrorCode(self._handle) != _WARNING or not harmless:
            raise JpegError(f"cannot be decoded: {message}")

    def __del__(self) -> None:
        self._library.tjDestroy(self._handle)


_of_thread = threading.local()


@cache
def _library() -> Any:
    """libjpeg-turbo's functions, found through ffcv's library."""
    import_ffcv()
    from ffcv import libffcv

    library = ctypes.CDLL(libffcv.lib._name)
    pointer, integer, length = ctypes.c_void_p, ctypes.c_int, ctypes.c_ulong
    library.tjInitDecompress.restype = pointer
    library.tjGetErrorStr2.restype = ctypes.c_char_p
    for name, arguments in (
        ("tjDecompressHeader3", [pointer, pointer, length, *[ctypes.POINTER(integer)] * 4]),
        ("tjDecompress2", [pointer, pointer, length, pointer, *[integer] * 5]),
        ("tjGetErrorStr2", [pointer]),
        ("tjGetErrorCode", [pointer]),
        ("tjDestroy", [pointer]),
    ):
        getattr(library, name).argtypes = arguments
    return library
