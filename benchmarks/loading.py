"""How soon and how fast batches come: import, first batch, and images per second, beside torch's own DataLoader."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from data_prep.loading import Loader, Shuffled
from data_prep.prepare import open_split, prepare

BATCH_SIZE = 256
ROUNDS = 5


def main() -> None:
    """Prints CPU seconds of the import in a new process, the first batch, and rates from interleaved rounds."""
    code = (
        "import time, torch; start = time.process_time();"
        "from data_prep.ffcv_import import import_ffcv; import_ffcv(); print(time.process_time() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"import of ffcv, on top of torch: {float(done.stdout):.2f} CPU s")
    with tempfile.TemporaryDirectory() as folder:
        prepare("fashion_mnist", Path(folder), log=lambda line: None)
        split = open_split(Path(folder), "fashion_mnist", "train_full")
        start = time.perf_counter()
        loader = Loader(split, batch_size=BATCH_SIZE, order=Shuffled())
        next(iter(loader.epoch(0)))
        print(f"first batch, from opening the file: {time.perf_counter() - start:.3f} s")
        images = np.concatenate([batch.images_BVCHW[:, 0].numpy() for batch in loader.epoch(0)])
        peer = DataLoader(TensorDataset(torch.from_numpy(images)), BATCH_SIZE, shuffle=True, num_workers=2)
        ours, theirs = [], []
        for number in range(1, ROUNDS + 1):
            ours.append(rate(loader.epoch(number), len(images)))
            theirs.append(rate(peer, len(images)))
        loader.close()
    print(f"Fashion-MNIST, plain, batches of {BATCH_SIZE}: {np.median(ours):,.0f} images/s")
    print(f"torch DataLoader, 2 workers, tensors already in memory: {np.median(theirs):,.0f} images/s")
    print(f"ratio of medians over {ROUNDS} interleaved epochs: {np.median(ours) / np.median(theirs):.1f}")


def rate(batches: object, images: int) -> float:
    start = time.perf_counter()
    for _ in batches:  # type: ignore[attr-defined]
        pass
    return images / (time.perf_counter() - start)
