"""What a search or a run has found, read from its folder: one row per trial, the best rows, and the paper's table.

Nothing here imports PyTorch or Ray, so a folder can be read on any machine.
"""

from pipelines.files import read_json, read_lines

from .best import best_table, best_trials, published_rank, ties, write_best
from .folders import is_run, is_sweep, read_plan
from .tables import BestTable, Table
from .trials import search_efficiency, trials_frame, write_trials

__all__ = [
    "BestTable",
    "Table",
    "best_table",
    "best_trials",
    "is_run",
    "is_sweep",
    "published_rank",
    "read_json",
    "read_lines",
    "read_plan",
    "search_efficiency",
    "ties",
    "trials_frame",
    "write_best",
    "write_trials",
]
