"""Softmax objectives with a point per class: STANDARD, COSINE, ARCFACE and HYPERBOLIC of the vMF study.

Every loss is called as `loss(embeddings_BN, labels_B)` and returns the mean cross entropy. `logits` are those of
prediction (for ArcFace: without margin). Spherical and hyperbolic mathematics run in at least float32 with autocast
off.

Legend: B batch, N embedding dimension (n of the paper), Y classes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hyperspherical.checks import check_at_least, check_choice, check_features, check_labels
from hyperspherical.poincare import exponential_map_at_zero, squared_norm, to_ball_interior
from hyperspherical.sphere import angle, at_least_float32, autocast_off, inverse_or_zero, normalize

LARGEST_INVERSE_TEMPERATURE = 1e3


def inverse_temperature(log_inverse_temperature: Tensor) -> Tensor:
    """beta = exp(tau), held at 1000 or less: a runaway temperature would end in logits that are not numbers."""
    return log_inverse_temperature.clamp(max=math.log(LARGEST_INVERSE_TEMPERATURE)).exp()


class SoftmaxLoss(nn.Module):
    """Cross entropy of a linear layer without bias (STANDARD): logits f W^T.

    Args:
        num_classes: Y, at least 1.
        embedding_size: n, at least 1.

    Attributes:
        class_matrix: (Y, n) parameter, Xavier uniform.
        no_weight_decay: names of parameters that weight decay must leave alone.

    Raises:
        ValueError: impossible sizes; embeddings not (B, n); labels not integers in 0 ... Y - 1.
    """

    no_weight_decay: tuple[str, ...] = ()

    def __init__(self, num_classes: int, embedding_size: int) -> None:
        super().__init__()
        check_at_least("num_classes", num_classes, 1)
        check_at_least("embedding_size", embedding_size, 1)
        self.num_classes, self.embedding_size = num_classes, embedding_size
        self.class_matrix = nn.Parameter(torch.empty(num_classes, embedding_size))
        nn.init.xavier_uniform_(self.class_matrix)

    def logits(self, embeddings: Tensor) -> Tensor:
        """(B, n) embeddings -> (B, Y) logits."""
        check_features("embeddings", embeddings, ("B", self.embedding_size))
        return F.linear(embeddings, self.class_matrix)

    def forward(self, embeddings: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) embeddings and (B,) labels -> mean loss in nats, a scalar. `generator` is not used."""
        logits = self.logits(embeddings)
        check_labels("labels", labels, embeddings.shape[0], self.num_classes)
        return F.cross_entropy(logits, labels)

    @torch.no_grad()
    def predict(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) embeddings -> (B, Y) class probabilities. `generator` is not used."""
        return at_least_float32(self.logits(embeddings)).softmax(dim=-1)

    def extra_repr(self) -> str:
        return f"num_classes={self.num_classes}, embedding_size={self.embedding_size}"


class CosineSoftmaxLoss(SoftmaxLoss):
    """Cross entropy of cosines (COSINE): logits beta cos(f, w_j), beta = exp(tau) learned.

    Args:
        num_classes: Y, at least 1.
        embedding_size: n, at least 1.
        log_inverse_temperature: initial tau; beta is held at 1000 or less.

    Attributes:
        class_matrix: (Y, n) parameter.
        log_inverse_temperature: tau, 0-d parameter.

    Raises:
        ValueError: as `SoftmaxLoss`.
    """

    def __init__(self, num_classes: int, embedding_size: int, log_inverse_temperature: float = 0.0) -> None:
        super().__init__(num_classes, embedding_size)
        self.log_inverse_temperature = nn.Parameter(torch.tensor(float(log_inverse_temperature)))

    def logits(self, embeddings: Tensor) -> Tensor:
        """(B, n) embeddings -> (B, Y) logits."""
        check_features("embeddings", embeddings, ("B", self.embedding_size))
        with autocast_off(embeddings):
            x_BN, w_YN = at_least_float32(embeddings), at_least_float32(self.class_matrix)
            beta = inverse_temperature(self.log_inverse_temperature)
            scale_B1 = beta * inverse_or_zero(torch.linalg.vector_norm(x_BN, dim=-1, keepdim=True))
            return F.linear(x_BN * scale_B1, normalize(w_YN.to(x_BN.dtype)))


class ArcFaceLoss(CosineSoftmaxLoss):
    """Cosine softmax with an additive angular margin on the true class: beta cos(theta_y + m) (ARCFACE).

    The angle comes from `sphere.angle`, so the gradient is finite at theta = 0 and theta = pi.

    Args:
        num_classes: Y, at least 1.
        embedding_size: n, at least 1.
        margin: m in radians, 0 ... pi. Also a plain attribute: the vMF study trains the first epochs with 0.
        log_inverse_temperature: initial tau.
        form: "published" is cos(theta + m) everywhere, which turns back beyond theta = pi - m and then rewards
            embeddings opposite their class; "monotone" continues with cos(theta) - m sin(m) there.

    Raises:
        ValueError: as `SoftmaxLoss`; margin outside [0, pi]; an unknown form.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.5,
        log_inverse_temperature: float = 0.0,
        form: str = "published",
    ) -> None:
        super().__init__(num_classes, embedding_size, log_inverse_temperature)
        check_choice("form", form, ("published", "monotone"))
        if not 0 <= margin <= math.pi:
            raise ValueError(f"margin must lie in [0, pi] radians, got {margin}")
        self.margin, self.form = margin, form

    def forward(self, embeddings: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) embeddings and (B,) labels -> mean loss in nats, a scalar. `generator` is not used."""
        check_features("embeddings", embeddings, ("B", self.embedding_size))
        check_labels("labels", labels, embeddings.shape[0], self.num_classes)
        with autocast_off(embeddings):
            x_BN = normalize(at_least_float32(embeddings))
            w_YN = normalize(at_least_float32(self.class_matrix).to(x_BN.dtype))
            theta_B = angle(x_BN, w_YN[labels])
            target_B = torch.cos(theta_B + self.margin)
            if self.form == "monotone":
                beyond = torch.cos(theta_B) - self.margin * math.sin(self.margin)
                target_B = torch.where(theta_B <= math.pi - self.margin, target_B, beyond)
            cosine_BY = F.linear(x_BN, w_YN).scatter(1, labels[:, None], target_B[:, None])
            return F.cross_entropy(inverse_temperature(self.log_inverse_temperature) * cosine_BY, labels)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, margin={self.margin}, form={self.form!r}"


class HyperbolicSoftmaxLoss(nn.Module):
    """Multinomial logistic regression in the Poincare ball of curvature -c (HYPERBOLIC).

    Embeddings enter the ball by the exponential map at 0. With P_j = exp_0(p_j) and x in the ball, the logit is the
    signed distance to the hyperplane through P_j with normal a_j, times its length,

        logit_j = (2 |a_j| / sqrt(c)) asinh(2 sqrt(c) <M_j, A_j> / (|A_j| (1 - c |M_j|^2))),
        M_j = (-P_j) + x by Moebius addition, A_j = a_j (1 - c |P_j|^2),

    evaluated in closed form from <P_j, x>, <a_j, x>, |x| and |P_j|, without a (B, Y, n) tensor.

    Args:
        num_classes: Y, at least 1.
        embedding_size: n, at least 1.
        curvature: c > 0.
        riemannian_gradient: multiply the gradient that leaves the ball by (1 - c |x|^2)^2 / 4.

    Attributes:
        normals, offsets: a and p, (Y, n) parameters, Kaiming uniform.

    Raises:
        ValueError: impossible sizes; c not positive; embeddings not (B, n); labels not integers in 0 ... Y - 1.
    """

    no_weight_decay: tuple[str, ...] = ("normals", "offsets")

    def __init__(
        self, num_classes: int, embedding_size: int, curvature: float = 1e-5, riemannian_gradient: bool = True
    ) -> None:
        super().__init__()
        check_at_least("num_classes", num_classes, 1)
        check_at_least("embedding_size", embedding_size, 1)
        if not 0 < curvature < math.inf:
            raise ValueError(f"curvature must be positive and finite, got {curvature}")
        self.num_classes, self.embedding_size = num_classes, embedding_size
        self.curvature, self.riemannian_gradient = curvature, riemannian_gradient
        self.normals = nn.Parameter(torch.empty(num_classes, embedding_size))
        self.offsets = nn.Parameter(torch.empty(num_classes, embedding_size))
        nn.init.kaiming_uniform_(self.normals, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.offsets, a=math.sqrt(5))

    def to_ball(self, embeddings: Tensor) -> Tensor:
        """(B, n) embeddings -> (B, n) points of the ball, inside radius (1 - 1e-3) / sqrt(c)."""
        check_features("embeddings", embeddings, ("B", self.embedding_size))
        return exponential_map_at_zero(at_least_float32(embeddings), self.curvature, self.riemannian_gradient)

    def logits(self, embeddings: Tensor) -> Tensor:
        """(B, n) embeddings -> (B, Y) logits."""
        c = self.curvature
        with autocast_off(embeddings):
            x_BN = self.to_ball(embeddings)
            a_YN = at_least_float32(self.normals).to(x_BN.dtype)
            p_YN = to_ball_interior(exponential_map_at_zero(at_least_float32(self.offsets).to(x_BN.dtype), c), c)
            gamma_Y = 1 - c * squared_norm(p_YN)
            length_Y = torch.linalg.vector_norm(a_YN, dim=-1).clamp_min(1e-7)
            x_squared_B1 = squared_norm(x_BN)[:, None]
            alpha_BY = 1 - 2 * c * F.linear(x_BN, p_YN) + c * x_squared_B1
            inner_BY = gamma_Y * F.linear(x_BN, a_YN) - alpha_BY * (p_YN * a_YN).sum(dim=-1)
            argument_BY = 2 * math.sqrt(c) * inner_BY / (length_Y * gamma_Y * (1 - c * x_squared_B1))
            logits_BY: Tensor = (2 / math.sqrt(c)) * length_Y * torch.asinh(argument_BY)
            return logits_BY

    def forward(self, embeddings: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) embeddings and (B,) labels -> mean loss in nats, a scalar. `generator` is not used."""
        logits = self.logits(embeddings)
        check_labels("labels", labels, embeddings.shape[0], self.num_classes)
        return F.cross_entropy(logits, labels)

    @torch.no_grad()
    def predict(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) embeddings -> (B, Y) class probabilities. `generator` is not used."""
        return self.logits(embeddings).softmax(dim=-1)

    def extra_repr(self) -> str:
        return f"num_classes={self.num_classes}, embedding_size={self.embedding_size}, curvature={self.curvature}"
