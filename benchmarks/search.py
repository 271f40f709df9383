"""What a search costs besides training: slot seconds that are neither training nor measuring.

Two searches of different size on scikit-learn's digits, without early stopping, in one Ray session that is already
running: the first pays for the processes of the slots, so the difference per trial between the two is what one more
trial costs.
"""

import json
import tempfile
from pathlib import Path

from data_prep.prepare import prepare
from pipelines.plan import make_plan
from pipelines.ray_cluster import connect
from pipelines.recipes import Study
from pipelines.search import start_search

SIZES = (8, 40)
EPOCHS = 3


def main() -> None:
    """Prints trials, wall seconds, share of training, and overhead per extra trial."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare("digits", root, log=lambda line: None)
        connect()
        rows = [measure(root, trials) for trials in SIZES]
    print(f"\n{'trials':>6} {'slots':>5} {'wall s':>8} {'training + measuring':>21} {'other slot s':>13}")
    for trials, timing, used, idle in rows:
        share = 100 * used / (used + idle)
        print(f"{trials:6} {timing['slots']:5} {timing['wall_seconds']:8.1f} {share:19.1f} % {idle:13.1f}")
    extra = (rows[1][3] - rows[0][3]) / (SIZES[1] - SIZES[0])
    print(f"overhead of one more trial: {extra:.2f} slot seconds")


def measure(root: Path, trials: int) -> tuple[int, dict[str, float], float, float]:
    """Runs a search of so many trials: their number, its timing, slot seconds used and slot seconds not used."""
    rates = [0.01 * (1 + number) for number in range(trials)]
    study = Study(title="benchmark", recipes=("vmf/mnist-cosine",), grid={"optimizer.learning_rate": rates}, columns={})
    plan = make_plan(
        "benchmark",
        study,
        epochs=EPOCHS,
        reduction_factor=2,
        grace_epochs=EPOCHS,
        validation_images=216,
        cpus_per_trial=1,
        gpus_per_trial=0,
        common={"data.name": "digits", "root": str(root), "device": "cpu"},
    )
    sweep = root / f"sweep-{trials}"
    start_search(plan, sweep)
    timing = json.loads((sweep / "timing.json").read_text())
    used = timing["train_seconds"] + timing["measure_seconds"]
    return trials, timing, used, timing["wall_seconds"] * timing["slots"] - used
