"""The von Mises-Fisher softmax loss (VMF): embedding and class vectors are vMF random vectors, not points.

Legend: S Monte-Carlo samples, B batch, N embedding dimension (n of the paper), Y classes, J joint draws of classes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hyperspherical import bessel
from hyperspherical.checks import check_at_least, check_between, check_choice, check_features, check_labels
from hyperspherical.losses.expected_softmax import expected_softmax, normalizer_for, polar
from hyperspherical.losses.softmax import inverse_temperature
from hyperspherical.samplers import SAMPLERS, sample_radial
from hyperspherical.sphere import at_least_float32, autocast_off
from hyperspherical.vmf import VonMisesFisher

NORMALIZERS = ("exact", "published")
_SCALE_FORMS = ("published", "exact_mean")
_PREDICT_ENTRIES = 1 << 22  # (rows, S, Y) numbers held at once while predicting


def concentration_for_ratio(ratio: float, dim: int) -> float:
    """kappa_0 = lambda (n - 1) / (1 - lambda^2), at which the upper bound of A_n equals lambda (Eq. 14).

    Raises:
        ValueError: ratio outside (0, 1), or dim < 2.
    """
    check_between("ratio", ratio, 0.0, 1.0)
    check_at_least("dim", dim, 2)
    return ratio / (1 - ratio**2) * (dim - 1)


def _scale(mean: Tensor | float, ratio: float, dim: int, form: str) -> Tensor | float:
    check_choice("form", form, _SCALE_FORMS)
    return concentration_for_ratio(ratio, dim) / (mean * (math.sqrt(dim) if form == "published" else 1.0))


def embedding_scale(features: Tensor, ratio: float, form: str = "published") -> Tensor:
    """alpha, the fixed multiplier that gives embeddings the concentration kappa_0 on average (Eq. 15-16).

    Args:
        features: (B, n) embeddings of the untrained network over the training data.
        ratio: lambda.
        form: "published" divides by sqrt(n) E|f_i| (Eq. 16; 25 % too large for Gaussian features),
            "exact_mean" by E|f| (Eq. 15 without its assumption).

    Returns:
        0-d alpha.

    Raises:
        ValueError: features not (B, n) or all zero, ratio outside (0, 1), an unknown form.
    """
    check_features("features", features, ("B", "n"))
    check_choice("form", form, _SCALE_FORMS)
    features = at_least_float32(features)
    mean = features.abs().mean() if form == "published" else torch.linalg.vector_norm(features, dim=-1).mean()
    if not float(mean) > 0:
        raise ValueError("features must not all be zero")
    return torch.as_tensor(_scale(mean, ratio, features.shape[1], form))


class VonMisesFisherLoss(nn.Module):
    """vMF softmax loss (Eq. 13), a Jensen bound of the expected cross entropy over random embeddings and classes.

    With z~ = alpha f, kappa_z = |z~|, mu_z = z~ / kappa_z, and w~_j the rows of the class matrix,

        L = E_z log sum_j C(|w~_j|) / C(|w~_j + beta z|)  -  beta E[w_y].E[z],

    the first expectation over `num_samples` reparameterised draws z, the second in closed form.

    Args:
        num_classes: Y, at least 1.
        embedding_size: n, at least 2.
        ratio: lambda of Eq. 14; the class matrix starts with concentrations near kappa_0 (Eq. 19).
        log_inverse_temperature: initial tau, beta = exp(tau) (the paper's sign; its code stores -tau).
        num_samples: S, draws per embedding, in training and in prediction.
        normalizer: "exact" Bessel functions, or the "published" approximations (Eq. 10 and 12).
        sampler: "exact", or "published" for the biased sampler of the paper's code.
        antithetic: train with pairs of draws whose tangents are opposite. Loss and gradient keep their expectation
            and become less noisy, at half the cost. Default: wherever num_samples is even and the sampler exact.

    Attributes:
        class_matrix: (Y, n) parameter w~.
        log_inverse_temperature: tau, 0-d parameter.
        embedding_scale: alpha, 0-d buffer; see `set_embedding_scale`.

    Raises:
        ValueError: impossible sizes or options; embeddings not (B, n); labels not integers in 0 ... Y - 1.
    """

    no_weight_decay: tuple[str, ...] = ()
    embedding_scale: Tensor

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        ratio: float = 0.4,
        log_inverse_temperature: float = 0.0,
        num_samples: int = 10,
        normalizer: str = "exact",
        sampler: str = "exact",
        antithetic: bool | None = None,
    ) -> None:
        super().__init__()
        check_at_least("num_classes", num_classes, 1)
        check_at_least("embedding_size", embedding_size, 2)
        check_at_least("num_samples", num_samples, 1)
        check_choice("normalizer", normalizer, NORMALIZERS)
        check_choice("sampler", sampler, SAMPLERS)
        self.num_classes, self.embedding_size = num_classes, embedding_size
        self.ratio, self.num_samples = ratio, num_samples
        self.normalizer, self.sampler = normalizer, sampler
        self.antithetic = sampler == "exact" and num_samples % 2 == 0 if antithetic is None else antithetic
        if self.antithetic and (sampler != "exact" or num_samples % 2):
            raise ValueError(
                f"antithetic needs the exact sampler and an even num_samples, got {sampler!r} and {num_samples}"
            )
        sigma = concentration_for_ratio(ratio, embedding_size) / math.sqrt(embedding_size)
        self.class_matrix = nn.Parameter(torch.randn(num_classes, embedding_size) * sigma)
        self.log_inverse_temperature = nn.Parameter(torch.tensor(float(log_inverse_temperature)))
        self.register_buffer("embedding_scale", torch.tensor(1.0))

    @torch.no_grad()
    def set_embedding_scale(self, mean: Tensor | float, form: str = "published") -> None:
        """Set alpha from a mean over the training data: of |f_i| ("published", Eq. 16) or of |f| ("exact_mean").

        Raises:
            ValueError: mean is not positive and finite, or the form is unknown.
        """
        mean = float(mean)
        if not 0 < mean < math.inf:
            raise ValueError(f"mean must be positive and finite, got {mean}")
        self.embedding_scale.fill_(_scale(mean, self.ratio, self.embedding_size, form))

    @torch.no_grad()
    def estimate_embedding_scale(self, features: Tensor, form: str = "published") -> None:
        """Set alpha from the untrained network's (B, n) embeddings of the training data; see `embedding_scale`."""
        check_features("features", features, ("B", self.embedding_size))
        self.embedding_scale.copy_(embedding_scale(features, self.ratio, form))

    def distribution(self, embeddings: Tensor) -> VonMisesFisher:
        """(B, n) embeddings -> the batch of vMF distributions they stand for."""
        return _distribution(self._natural_parameter(embeddings))

    def logits(self, embeddings: Tensor) -> Tensor:
        """(B, n) embeddings -> (B, Y) logits beta E[w_j].E[z] of the mean vectors: deterministic."""
        with autocast_off(embeddings):
            z_BN = self._natural_parameter(embeddings)
            w_YN = self._class_parameter(z_BN)
            return self._beta() * F.linear(self._mean_vector(z_BN), self._mean_vector(w_YN))

    def forward(self, embeddings: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, n) embeddings and (B,) labels -> mean loss in nats, a scalar. Draws come from `generator`."""
        with autocast_off(embeddings):
            z_BN = self._natural_parameter(embeddings)
            check_labels("labels", labels, embeddings.shape[0], self.num_classes)
            w_YN = self._class_parameter(z_BN)
            beta = self._beta()
            if self.sampler == "exact":
                functions = normalizer_for(self.normalizer, z_BN.dtype)
                return expected_softmax(
                    z_BN, w_YN, beta.to(z_BN.dtype), labels, self.num_samples, self.antithetic, functions, generator
                )
            draws_SBN = _distribution(z_BN).rsample((self.num_samples,), generator, self.sampler)
            # |w + beta z|^2 - |w|^2, as |z| = 1
            increment_SBY = beta.square() + F.linear(draws_SBN, w_YN) * (2 * beta)
            exact = self.normalizer == "exact"
            step = bessel.log_vmf_normalizer_step if exact else bessel.published_log_vmf_normalizer_step
            terms_SBY = step(w_YN.square().sum(dim=-1), increment_SBY, self.embedding_size)
            attraction_B = (self._mean_vector(z_BN) * self._mean_vector(w_YN)[labels]).sum(dim=-1)
            return terms_SBY.logsumexp(dim=-1).mean() - beta * attraction_B.mean()

    @torch.no_grad()
    def predict(
        self, embeddings: Tensor, generator: torch.Generator | None = None, shared_draws: bool = False
    ) -> Tensor:
        """Class probabilities: mean over draws of softmax_j(beta w_j.z).

        Args:
            embeddings: (B, n).
            generator: source of randomness.
            shared_draws: one set of S class draws for the whole batch, and the mean over all S x S pairs; cheaper.
                By default every embedding and sample has class draws of its own, as published.

        Returns:
            (B, Y) probabilities.
        """
        with autocast_off(embeddings):
            z_BN = self._natural_parameter(embeddings)
            w_YN = self._class_parameter(z_BN)
            beta = self._beta()
            draws_SBN = _distribution(z_BN).sample((self.num_samples,), generator, self.sampler)
            if shared_draws:
                classes_JYN = _distribution(w_YN).sample((self.num_samples,), generator, self.sampler)
                chunks = [F.linear(draws_SBN, w) for w in classes_JYN]
                return torch.stack([(beta * c).softmax(dim=-1).mean(dim=0) for c in chunks]).mean(dim=0)
            rows = max(1, _PREDICT_ENTRIES // (self.num_samples * self.num_classes))
            parts = draws_SBN.split(rows, dim=1)
            return torch.cat([self._softmax_of_fresh_classes(part, w_YN, beta, generator) for part in parts])

    def _softmax_of_fresh_classes(
        self, draws_SBN: Tensor, w_YN: Tensor, beta: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Independent class vectors for every draw, of which only the inner product w_j.z is made.

        w_j = c mu_j + s t with t uniform on the unit sphere orthogonal to mu_j, and t.z is the length of z's part in
        that hyperplane times one coordinate of a uniform vector of R^(n-1): the same distribution as drawing w_j.
        """
        samples, batch, n = draws_SBN.shape
        cos, sin = sample_radial(w_YN.square().sum(dim=-1).sqrt(), n, samples * batch, generator, self.sampler)
        first = torch.randn(cos.shape, dtype=cos.dtype, device=cos.device, generator=generator)
        if n > 2:
            others = 2 * torch._standard_gamma(torch.full_like(cos, (n - 2) / 2), generator=generator)
        else:
            others = torch.zeros_like(cos)
        coordinate_SBY = (first / (first.square() + others).sqrt()).view(samples, batch, -1)
        along_SBY = F.linear(draws_SBN, polar(w_YN)[1])
        across_SBY = (1 - along_SBY.square()).clamp_min(0.0).sqrt()
        shape = coordinate_SBY.shape
        inner_SBY = cos.view(shape) * along_SBY + sin.view(shape) * across_SBY * coordinate_SBY
        return (beta * inner_SBY).softmax(dim=-1).mean(dim=0)

    def _natural_parameter(self, embeddings: Tensor) -> Tensor:
        check_features("embeddings", embeddings, ("B", self.embedding_size))
        x_BN = at_least_float32(embeddings)
        return x_BN * self.embedding_scale.to(x_BN.dtype)

    def _class_parameter(self, z_BN: Tensor) -> Tensor:
        return self.class_matrix.to(z_BN.dtype)

    def _beta(self) -> Tensor:
        return inverse_temperature(self.log_inverse_temperature)

    def _mean_vector(self, x: Tensor) -> Tensor:
        """E of the vMF with natural parameter x = kappa mu: A(kappa) mu, smooth at x = 0."""
        exact = self.normalizer == "exact"
        quotient = bessel.mean_resultant_quotient if exact else bessel.published_mean_resultant_quotient
        return x * quotient(x.square().sum(dim=-1), self.embedding_size)[..., None]

    def extra_repr(self) -> str:
        return (
            f"num_classes={self.num_classes}, embedding_size={self.embedding_size}, ratio={self.ratio}, "
            f"num_samples={self.num_samples}, normalizer={self.normalizer!r}, sampler={self.sampler!r}"
        )


def _distribution(x: Tensor) -> VonMisesFisher:
    """The vMF with natural parameter x = kappa mu."""
    length, direction, _ = polar(x)
    return VonMisesFisher(direction, length, validate_args=False)
