"""The one door to ffcv: imported late, cheaply, and made to build loaders that start at once."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any


@cache
def import_ffcv() -> ModuleType:
    """ffcv, imported on first use in about 0.3 CPU seconds on top of torch and numba.

    ffcv keeps a small lookup table in a `numba.typed.Dict`, which costs seven CPU seconds of compilation at import. It
    is only ever read from Python, so a plain dict takes its place while the import runs.

    Raises:
        ImportError: ffcv is not installed; the message says how to install it.
    """
    try:
        import numba.typed
    except ImportError as error:
        raise ImportError(_MISSING) from error
    compiled_dict = numba.typed.Dict
    numba.typed.Dict = dict
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ffcv imports distutils, deprecated since Python 3.10
            import ffcv
            import ffcv.loader.epoch_iterator
            import ffcv.writer
    except ImportError as error:
        raise ImportError(_MISSING) from error
    finally:
        numba.typed.Dict = compiled_dict
    return ffcv


@contextmanager
def plain_loaders() -> Iterator[None]:
    """Inside, ffcv builds loaders that run as plain Python over a mapped file, in milliseconds instead of seconds.

    Switched off are the compiler, whose work is kept nowhere, and tables of which image lies on which page, which only
    ffcv's other ways of reading use. ffcv also sets the number of torch threads of the whole process; it is set back.
    """
    import_ffcv()
    import torch
    from ffcv.loader import loader
    from ffcv.memory_managers.os_cache import OSCacheContext, OSCacheManager
    from ffcv.pipeline.compiler import Compiler

    class MappedFile(OSCacheManager):
        def __init__(self, reader: Any) -> None:
            self.reader = reader
            self.context = OSCacheContext(self)
            self.ptrs = self.sizes = None  # asked for by compiled decoders only

    enabled, threads = Compiler.is_enabled, torch.get_num_threads()
    Compiler.set_enabled(False)
    loader.OSCacheManager = MappedFile
    try:
        yield
    finally:
        loader.OSCacheManager = OSCacheManager
        Compiler.set_enabled(enabled)
        torch.set_num_threads(threads)


_MISSING = (
    'reading and writing .beton files needs ffcv 1.0.2: install the data extra (pip install "hyperspherical[data]") '
    "after libturbojpeg and the OpenCV headers, or let `make` set everything up"
)
