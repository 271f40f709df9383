"""Cropping, resizing and blurring as products with one small matrix per image and axis.

The matrices make every image's own window or width a batched matrix product, on any device.
"""

import torch
from torch import Tensor


def separable(images_BCHW: Tensor, rows_BIH: Tensor, columns_BJW: Tensor) -> Tensor:
    """Applies a matrix to the rows and one to the columns of each image: (B, C, I, J)."""
    batch, channels, height, width = images_BCHW.shape
    across = torch.bmm(images_BCHW.reshape(batch, channels * height, width), columns_BJW.transpose(1, 2))
    across_BCHJ = across.reshape(batch, channels, height, -1)
    return torch.matmul(rows_BIH[:, None], across_BCHJ)


def crop_and_resize_matrix(start_B: Tensor, length_B: Tensor, side: int, target: int) -> Tensor:
    """Rows of weights that resize the window start..start+length-1 of an axis to `target` pixels: (B, target, side).

    Bilinear with antialiasing, as torchvision's `resized_crop`: a triangle as wide as the step when the window shrinks,
    two pixels wide when it grows, cut off at the window and normalised.
    """
    device = start_B.device
    step_B11 = (length_B.to(torch.float64) / target)[:, None, None]
    width_B11 = step_B11.clamp(min=1.0)
    centre_BT1 = (torch.arange(target, device=device, dtype=torch.float64)[None, :, None] + 0.5) * step_B11
    pixel_B1S = torch.arange(side, device=device)[None, None, :] - start_B[:, None, None]
    weights_BTS = (1 - ((pixel_B1S + 0.5 - centre_BT1) / width_B11).abs()).clamp(min=0.0)
    weights_BTS = weights_BTS * ((pixel_B1S >= 0) & (pixel_B1S < length_B[:, None, None]))
    return (weights_BTS / weights_BTS.sum(-1, keepdim=True)).float()


def blur_matrix(sigma_B: Tensor, side: int, radius: int) -> Tensor:
    """Rows of Gaussian weights, 2 radius + 1 wide, folded back at the borders: (B, side, side)."""
    offsets_K = torch.arange(-radius, radius + 1, device=sigma_B.device)
    weights_BK = torch.exp(-0.5 * (offsets_K / sigma_B[:, None]) ** 2)
    weights_BK = weights_BK / weights_BK.sum(-1, keepdim=True)
    pixels_SK = torch.arange(side, device=sigma_B.device)[:, None] + offsets_K
    reflected_SK = (side - 1) - ((side - 1) - pixels_SK.abs()).abs()
    result_BSS = weights_BK.new_zeros(len(sigma_B), side, side)
    index_BSK = reflected_SK.expand(len(sigma_B), -1, -1)
    return result_BSS.scatter_add_(2, index_BSK, weights_BK[:, None, :].expand(-1, side, -1))
