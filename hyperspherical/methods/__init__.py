"""What is trained: an encoder with an objective and the state they need, behind one contract, `Method`."""

from .base import Batch, Encoder, Features, Method, Progress, StepOutput
from .moco import MoCo
from .pair_contrastive import PairContrastive
from .supervised import Supervised

__all__ = ["Batch", "Encoder", "Features", "Method", "MoCo", "PairContrastive", "Progress", "StepOutput", "Supervised"]
