"""Contrastive objectives on several views of each image: InfoNCE, SimCLR, DCL, a queue, and the view averages.

Embeddings need not be normalised; every function does it. Gathering over ranks happens before (see `gather`).

Legend: B images, N keys of the whole (gathered) batch, V views, K negatives of a queue, D dimension.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hyperspherical.checks import check_choice, check_features
from hyperspherical.similarity import cosine_similarity
from hyperspherical.sphere import at_least_float32, autocast_off, normalize


def _check_temperature(temperature: float) -> None:
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}")


def _check_views(name: str, z: Tensor) -> None:
    check_features(name, z, ("B", "V", "D"))
    if z.shape[1] < 2:
        raise ValueError(f"{name} must hold at least 2 views, got shape {tuple(z.shape)}")


def in_batch_loss(logits_BN: Tensor, first_row: int = 0) -> Tensor:
    """Cross entropy whose positive sits on the diagonal: row b belongs to column first_row + b.

    Args:
        logits_BN: (B, N) similarities over temperature.
        first_row: column of row 0's positive; rank * B where keys are gathered over ranks.

    Raises:
        ValueError: wrong shape, or the positives do not fit into the columns.
    """
    check_features("logits_BN", logits_BN, ("B", "N"))
    batch, columns = logits_BN.shape
    if first_row < 0 or first_row + batch > columns:
        raise ValueError(
            f"first_row must leave room for {batch} positives in {columns} columns, got first_row = {first_row}"
        )
    targets = torch.arange(first_row, first_row + batch, device=logits_BN.device)
    return F.cross_entropy(at_least_float32(logits_BN), targets)


def info_nce(queries_BD: Tensor, keys_ND: Tensor, temperature: float = 0.1, first_row: int = 0) -> Tensor:
    """InfoNCE with in-batch negatives: -log softmax of cos / temperature at the positive, mean over queries.

    Args:
        queries_BD: (B, D).
        keys_ND: (N, D); the positive of query b is key first_row + b.
        temperature: > 0.
        first_row: see `in_batch_loss`.

    Raises:
        ValueError: wrong shapes, temperature not positive, positives that do not fit.
    """
    _check_temperature(temperature)
    return in_batch_loss(cosine_similarity(queries_BD, keys_ND) / temperature, first_row)


def queue_info_nce(logits_positive_B: Tensor, logits_negative_BK: Tensor) -> Tensor:
    """InfoNCE of one positive against the negatives of a queue (MoCo), mean over queries.

    Args:
        logits_positive_B: (B,) similarity to the own key, over temperature.
        logits_negative_BK: (B, K) similarities to the queue, over temperature.

    Raises:
        ValueError: the shapes do not fit together.
    """
    check_features("logits_negative_BK", logits_negative_BK, ("B", "K"))
    check_features("logits_positive_B", logits_positive_B, (logits_negative_BK.shape[0],))
    positive_B, negative_BK = at_least_float32(logits_positive_B), at_least_float32(logits_negative_BK)
    return (torch.logaddexp(positive_B, negative_BK.logsumexp(dim=-1)) - positive_B).mean()


def _positives_and_negatives(z_BVD: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """(B, V, V) logits inside each image, and (B, V) log of the summed exponentials to all views of other images."""
    _check_views("z_BVD", z_BVD)
    _check_temperature(temperature)
    batch, views, dim = z_BVD.shape
    if batch < 2:
        raise ValueError(f"z_BVD must hold at least 2 images to contrast, got shape {tuple(z_BVD.shape)}")
    with autocast_off(z_BVD):
        unit_BVD = normalize(at_least_float32(z_BVD))
        flat = unit_BVD.reshape(batch * views, dim)
        logits = (flat @ flat.T / temperature).view(batch, views, batch, views)
        within_BVV = logits.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        own = torch.eye(batch, dtype=torch.bool, device=flat.device)[:, None, :, None]
        others_BV = logits.masked_fill(own, -math.inf).flatten(2).logsumexp(dim=-1)
        return within_BVV, others_BV


def _mean_off_diagonal(x_BVV: Tensor) -> Tensor:
    """Mean over images and ordered pairs of distinct views."""
    batch, views, _ = x_BVV.shape
    total = x_BVV.sum() - x_BVV.diagonal(dim1=1, dim2=2).sum()
    return total / (batch * views * (views - 1))


def simclr_loss(z_BVD: Tensor, temperature: float = 0.1) -> Tensor:
    """NT-Xent for V >= 2 views: every ordered pair of views of an image is a positive against all other images' views.

    At V = 2 this is the loss of SimCLR; beyond, other positives of the same image are not in the denominator.

    Args:
        z_BVD: (B, V, D) embeddings, B >= 2.
        temperature: > 0.

    Raises:
        ValueError: wrong shape, fewer than 2 views or images, temperature not positive.
    """
    within_BVV, others_BV = _positives_and_negatives(z_BVD, temperature)
    return _mean_off_diagonal(torch.logaddexp(within_BVV, others_BV[..., None]) - within_BVV)


def dcl_loss(z_BVD: Tensor, temperature: float = 0.1) -> Tensor:
    """Decoupled contrastive loss: NT-Xent without the positive in its own denominator.

    Args and errors as `simclr_loss`.
    """
    within_BVV, others_BV = _positives_and_negatives(z_BVD, temperature)
    return _mean_off_diagonal(others_BV[..., None] - within_BVV)


def loss_average(
    queries_BVD: Tensor,
    keys_NVD: Tensor,
    temperature: float = 0.1,
    negatives_KD: Tensor | None = None,
    first_row: int = 0,
    mean: str = "losses",
) -> Tensor:
    """Loss_avg of the DSF paper: the mean of the InfoNCE losses of all pairs (query view i, key view j).

    Negatives of pair (i, j) are the other images' keys of the same view j, or, if given, a queue.

    Args:
        queries_BVD: (B, V, D).
        keys_NVD: (N, V', D); the positive of image b is first_row + b.
        temperature: > 0.
        negatives_KD: (K, D) queue; then N = B and only the own key is taken from `keys_NVD`.
        first_row: see `in_batch_loss`.
        mean: "losses" averages the losses (the geometric mean of the probabilities, in poly-view's words),
            "probabilities" averages the probabilities of a query view's positives before the logarithm.

    Raises:
        ValueError: wrong shapes, temperature not positive, positives that do not fit, an unknown mean.
    """
    check_features("queries_BVD", queries_BVD, ("B", "V", "D"))
    batch, _, dim = queries_BVD.shape
    check_features("keys_NVD", keys_NVD, ("N", "V", dim))
    if negatives_KD is not None:
        check_features("negatives_KD", negatives_KD, ("K", dim))
    _check_temperature(temperature)
    check_choice("mean", mean, ("losses", "probabilities"))
    if first_row < 0 or first_row + batch > keys_NVD.shape[0]:
        raise ValueError(
            f"first_row must leave room for {batch} positives in {keys_NVD.shape[0]} keys, got {first_row}"
        )
    with autocast_off(queries_BVD):
        q_BVD = normalize(at_least_float32(queries_BVD))
        k_NVD = normalize(at_least_float32(keys_NVD)).to(q_BVD.dtype)
        own_BVD = k_NVD[first_row : first_row + batch]
        positive_BIJ = q_BVD @ own_BVD.transpose(1, 2) / temperature
        if negatives_KD is None:
            logits_BIJN = torch.einsum("bid,njd->bijn", q_BVD, k_NVD) / temperature
            total_BIJ = logits_BIJN.logsumexp(dim=-1)
        else:
            queue_KD = normalize(at_least_float32(negatives_KD)).to(q_BVD.dtype)
            negatives_BI = (q_BVD @ queue_KD.T / temperature).logsumexp(dim=-1)
            total_BIJ = torch.logaddexp(positive_BIJ, negatives_BI[..., None])
        losses_BIJ = total_BIJ - positive_BIJ
        if mean == "losses":
            return losses_BIJ.mean()
        return (math.log(losses_BIJ.shape[-1]) - (-losses_BIJ).logsumexp(dim=-1)).mean()
