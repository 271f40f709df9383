"""What the loader is compared with: stock FFCV, torch's DataLoader over torchvision's transforms, bare decoding."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

from data_prep import jpeg
from data_prep.ffcv_import import import_ffcv
from data_prep.reading import BetonReader, Images, JpegBatch, Team

Transform = Callable[[Any], Tensor]
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WORKERS = 2


def forever(batches: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from batches


def transform(preset: str) -> Transform:
    """torchvision's transforms for PIL images that do what a preset does."""
    jitter = T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8)
    last = [T.ToTensor(), T.Normalize(_MEAN, _STD)]
    steps: dict[str, list[Any]] = {
        "vmf_cifar": [T.RandomCrop(32, 4, padding_mode="reflect"), T.RandomHorizontalFlip(), *last, occluded],
        "dsf_cifar": [
            T.RandomResizedCrop(32, scale=(0.2, 1.0)),
            T.RandomApply([T.RandAugment()], 0.5),
            jitter,
            T.RandomGrayscale(0.2),
            T.RandomApply([blurred], 0.5),
            T.RandomHorizontalFlip(),
            *last,
        ],
        "imagenet_linear": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *last],
    }
    return T.Compose(steps[preset])


def occluded(image_CHW: Tensor) -> Tensor:
    top, left = torch.randint(0, 25, (2,)).tolist()
    image_CHW[:, top : top + 8, left : left + 8] = 0
    return image_CHW


class _Blur(torch.nn.Module):
    """As MoCo's code blurs."""

    def forward(self, image: Image.Image) -> Image.Image:
        return image.filter(ImageFilter.GaussianBlur(float(torch.empty(1).uniform_(0.1, 2.0))))


blurred = _Blur()


class InMemory(Dataset[Tensor]):
    """Images in memory, as torchvision's CIFAR10 keeps them: V views each."""

    def __init__(self, pixels_NHWC: NDArray[np.uint8], transform: Transform, views: int) -> None:
        self.pixels_NHWC, self.transform, self.views = pixels_NHWC, transform, views

    def __len__(self) -> int:
        return len(self.pixels_NHWC)

    def __getitem__(self, index: int) -> Tensor:
        image = Image.fromarray(self.pixels_NHWC[index])
        return torch.stack([self.transform(image) for _ in range(self.views)])


def folder(images: Path, transform: Transform, views: int) -> ImageFolder:
    """torchvision's ImageFolder; an image is decoded once for all views."""
    return ImageFolder(str(images), lambda image: torch.stack([transform(image) for _ in range(views)]))


def data_loader(dataset: Any, batch_size: int) -> Any:
    return DataLoader(dataset, batch_size, True, num_workers=WORKERS, drop_last=True, persistent_workers=True)


def stock_raw(path: Path, batch_size: int, workers: int) -> Any:
    """FFCV as its documentation shows for CIFAR; it pads with zeros."""
    import_ffcv()
    from ffcv import transforms
    from ffcv.fields.decoders import SimpleRGBImageDecoder

    steps = [transforms.RandomHorizontalFlip(), transforms.RandomTranslate(padding=4), transforms.Cutout(8)]
    return _stock(path, [SimpleRGBImageDecoder(), *steps], batch_size, workers)


def stock_jpeg(path: Path, batch_size: int, workers: int) -> Any:
    """FFCV as its documentation shows for ImageNet."""
    import_ffcv()
    from ffcv import transforms
    from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder

    steps = [RandomResizedCropRGBImageDecoder((224, 224)), transforms.RandomHorizontalFlip()]
    return _stock(path, steps, batch_size, workers)


def _stock(path: Path, steps: list[Any], batch_size: int, workers: int) -> Any:
    from ffcv.fields.decoders import IntDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import Convert, ToTensor, ToTorchImage

    mean, std = (tuple(255 * number for number in numbers) for numbers in (_MEAN, _STD))
    last = [ToTensor(), ToTorchImage(), Convert(torch.float32), T.Normalize(mean, std)]
    pipelines = {"image": [*steps, *last], "label": [IntDecoder(), ToTensor()]}
    options = {"num_workers": workers, "order": OrderOption.RANDOM, "os_cache": True, "seed": 0}
    return Loader(str(path), batch_size=batch_size, pipelines=pipelines, **options)


class Decoded:
    """The loader's reading without windows and stages: batches of decoded images of any size."""

    def __init__(self, path: Path, batch_size: int, threads: int) -> None:
        self.reader, self.batch_size, self.threads = BetonReader(path, "label", None), batch_size, threads

    def __iter__(self) -> Iterator[list[NDArray[np.uint8]]]:
        order = np.random.default_rng(0).permutation(self.reader.samples)
        batches = [order[at : at + self.batch_size] for at in range(0, len(order), self.batch_size)]
        return self.reader.batches(batches[: len(order) // self.batch_size], self._decoded, self.threads)

    def _decoded(self, number: int, images: Images, labels_B: NDArray[np.int64], team: Team) -> list[NDArray[np.uint8]]:
        assert isinstance(images, JpegBatch)
        found: list[Any] = [None] * len(images)

        def work(part: slice) -> None:
            for place in range(part.start, part.stop):
                found[place] = images.decode(place).copy()

        team.share(work, len(images), 1, 8)
        return found


def bare_decodes(encoded: list[tuple[bytes, int, int]], batch_size: int, threads: int) -> Iterator[None]:
    """libjpeg-turbo alone, over files in memory, in as many threads; what is decoded is thrown away."""
    files = [(np.frombuffer(data, np.uint8), height, width) for data, height, width in encoded]

    def some(part: list[tuple[NDArray[np.uint8], int, int]]) -> None:
        for data, height, width in part:
            jpeg.decode(data.ctypes.data, data.size, height, width)

    with ThreadPoolExecutor(threads) as pool:
        while True:
            for at in range(0, len(files) - batch_size + 1, batch_size):
                batch = files[at : at + batch_size]
                list(pool.map(some, [batch[first::threads] for first in range(threads)]))
                yield None
