"""Memory comes back only when nothing refers to it any more."""

import gc

import torch

from data_prep.room import Room


def test_memory_is_used_again_once_nobody_holds_it() -> None:
    room = Room()
    first = room.empty((4, 5))
    address = first.data_ptr()
    assert first.shape == (4, 5) and first.dtype == torch.float32
    part = first[1:, 2].numpy()
    part[:] = 7
    del first
    gc.collect()
    assert room.empty((4, 5)).data_ptr() != address  # a part of it is still held
    assert (part == 7).all()
    del part
    gc.collect()
    held = [room.empty((2, 2)) for _ in range(2)]
    assert address in [tensor.data_ptr() for tensor in held]
    assert len({tensor.data_ptr() for tensor in held}) == 2


def test_what_is_too_small_is_not_given_out_and_little_is_kept() -> None:
    room = Room()
    small = room.empty((2,))
    del small
    large = room.empty((3000,))
    assert large.fill_(1).sum() == 3000
    many = [room.empty((10,)) for _ in range(20)]
    del many, large
    assert 0 < len(room._free) <= 6
    room.clear()
    assert room._free == []
