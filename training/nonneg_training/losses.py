"""The losses, and nested lengths for all of them: pure functions of tensors, each beside its equation."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_core.errors import ConfigInvalid

SHORTEST = (
    1e-2  # shorter vectors are divided by this: their gradient grows with one over it (by rep_relu, zeros have one)
)


def unit(z: Tensor) -> Tensor:
    """Return each row divided by its length, or by SHORTEST where it is shorter."""
    return F.normalize(z.float(), dim=1, eps=SHORTEST)


# Nested (Matryoshka) lengths: the same loss on every prefix, so that prefixes are good by construction.


def nested_loss(loss: Callable[..., Tensor], lengths: Sequence[int], *z: Tensor) -> Tensor:
    """Return the mean over `lengths` of loss(z[:, :k], ...); without lengths the loss of the whole vectors."""
    if not lengths:
        return loss(*z)
    return torch.stack([loss(*(v[:, :k] for v in z)) for k in lengths]).mean()


def prefix_similarities(z: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Return all pairs' cosines on every prefix, each gram matrix built on the one before: (batch, batch) a length.

    Products are computed for D columns once, not for the sum of the lengths.
    """
    cosines: list[Tensor] = []
    gram: Tensor | None = None
    start = 0
    for k in sorted(lengths):
        part = z[:, start:k].float()
        gram = part @ part.T if gram is None else gram + part @ part.T
        inverse = gram.diagonal().clamp(min=SHORTEST**2).rsqrt()  # a prefix of zeros has cosines of zero
        cosines.append(gram * inverse[:, None] * inverse[None, :])
        start = k
    return cosines


def check_lengths(lengths: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """Return them sorted, distinct, at most D."""
    if any(k < 1 or k > dimensions for k in lengths):
        raise ConfigInvalid(
            f"loss.lengths={list(lengths)} does not fit {dimensions} dimensions",
            fix=f"give lengths from 1 to {dimensions}",
            field="loss.lengths",
            limit=dimensions,
        )
    return tuple(sorted(set(lengths)))


# InfoNCE over two views of each image (NT-Xent): the loss of `cl` and, on non-negative features, of `ncl`.


def infonce(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Compute -log p(the other view) among the 2B - 1 other vectors, at cosine / temperature; mean over all 2B.

    z1[i] and z2[i] are views of one image, activated and not yet normalised; arXiv 2403.12459, equation 1.
    """
    z = unit(torch.cat([z1, z2]))  # (2B, D)
    similarity = z @ z.T / temperature  # (2B, 2B)
    similarity.fill_diagonal_(-math.inf)
    batch = len(z1)
    positive = torch.arange(2 * batch, device=z.device).roll(batch)
    return F.cross_entropy(similarity, positive)


def loss_of_equal_vectors(batch: int) -> float:
    """Return the loss when all vectors are equal: ln(2B - 1)."""
    return math.log(2 * batch - 1)


# The spectral contrastive loss: matrix factorisation of the normalised co-occurrence of views.


def spectral(z1: Tensor, z2: Tensor) -> Tensor:
    """Compute -2 E z(x).z(x+) + E (z(x).z(x-))^2; the negatives are all pairs of different images, both views.

    Up to a constant |A - F F^T|^2 for the co-occurrence matrix A (arXiv 2106.04156; non-negative: 2403.12459, eq. 6).
    """
    z1, z2 = z1.float(), z2.float()
    batch = len(z1)
    positive = (z1 * z2).sum(dim=1).mean()
    cross = (z1 @ z2.T).square()
    negative = (cross.sum() - cross.diagonal().sum()) / (batch * (batch - 1))
    loss: Tensor = -2 * positive + negative
    return loss


def clip_length(z: Tensor, radius: float) -> Tensor:
    """Return vectors longer than `radius` shortened to it: the loss has no length of its own to hold early steps."""
    shrink = radius / z.float().norm(dim=1, keepdim=True).clamp(min=radius)  # (batch, 1), at most 1
    clipped: Tensor = z * shrink.to(z.dtype)
    return clipped


# InfoNCE between two towers (CLIP, arXiv 2103.00020): each image finds its caption and each caption its image.


def clip(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    """Compute both directions' mean -log p(partner) among the batch, at cosine * scale; row i belongs to row i."""
    similarity = unit(image) @ unit(text).T * scale
    partner = torch.arange(len(image), device=image.device)
    return (F.cross_entropy(similarity, partner) + F.cross_entropy(similarity.T, partner)) / 2


# Cross entropy, and its non-negative form (NCE, arXiv 2403.12459, section 5): features and class weights >= 0.


def cross_entropy(z: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute -log softmax(z W^T + b)[label]."""
    return F.cross_entropy(F.linear(z.float(), weight.float(), bias), labels)


def non_negative_cross_entropy(z: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute -log softmax(z relu(W)^T + b)[label]: a class is a non-negative prototype, contrasted with its images."""
    return cross_entropy(z, weight.relu(), labels, bias)


# Label positives: every image of the same class is a positive (SupCon, arXiv 2004.11362, equation 2).


def supervised_contrastive(similarity: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return mean over anchors of the mean over positives of -log p(positive); anchors without a positive do not count.

    `similarity` holds the cosines of all pairs, (batch, batch).
    """
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    log_p = (similarity / temperature).masked_fill(itself, -math.inf).log_softmax(dim=1)
    positive = (labels[:, None] == labels[None, :]) & ~itself
    count = positive.sum(dim=1)
    each = -log_p.masked_fill(~positive, 0).sum(dim=1) / count.clamp(min=1)  # (batch,)
    return each.sum() / (count > 0).sum().clamp(min=1)


# Similarity distillation: the head's similarities follow the backbone's (NMF of a teacher's similarity matrix).


def teacher_similarity(features: Tensor, mean: Tensor) -> Tensor:
    """Return the cosines of centred features, (batch, batch): pooled ReLU features all point one way until centred."""
    x = F.normalize(features.float() - mean, dim=1)
    return x @ x.T


def squared_difference(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared difference off the diagonal; what is below zero, out of reach, asks for zero."""
    batch = len(student)
    off = ~torch.eye(batch, dtype=torch.bool, device=student.device)
    return (student - teacher.clamp(min=0))[off].square().mean()


def divergence(
    student: Tensor, teacher: Tensor, temperature: float, of_student: float | Tensor | None = None
) -> Tensor:
    """Return the rows' mean KL(teacher || student) between the softmaxes over the other images: their neighbourhoods.

    of_student: the student's own temperature, where it is not the teacher's.
    """
    warmth = temperature if of_student is None else of_student
    itself = torch.eye(len(student), dtype=torch.bool, device=student.device)
    log_p = (teacher / temperature).masked_fill(itself, -math.inf).log_softmax(dim=1)
    log_q = (student / warmth).masked_fill(itself, -math.inf).log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q).masked_fill(itself, 0)).sum(dim=1).mean()


# Sparse reconstruction (CSR, arXiv 2503.01776): keep the k largest, decode, revive what never fires.


def top_k(z: Tensor, k: int) -> Tensor:
    """Return each row's k largest entries, the rest zero."""
    if k >= z.shape[1]:
        return z
    values, indices = z.topk(k, dim=1)
    return torch.zeros_like(z).scatter(1, indices, values)


def batch_top_k(z: Tensor, k: int) -> Tensor:
    """Return the batch's k x batch largest entries: rich images may use more than k, plain ones fewer."""
    keep = k * len(z)
    if keep >= z.numel():
        return z
    threshold = z.detach().flatten().kthvalue(z.numel() - keep).values
    return torch.where(z > threshold, z, 0)


def relative_error(x: Tensor, decoded: Tensor, mean: Tensor) -> Tensor:
    """Return squared error as a share of the variance: 1 is what always answering the mean would cost."""
    return (decoded - x).square().sum() / (x - mean).square().sum().clamp(min=1e-12)


def revival(z: Tensor, dead: Tensor, residual: Tensor, decoder: Tensor, k: int) -> Tensor:
    """Return how badly the k strongest dead dimensions explain what the live ones left over.

    z: pre-activations (batch, D); dead: bool (D,); residual: x - decoded, detached (batch, width); decoder: (width, D).
    """
    if not dead.any():
        return z.sum() * 0
    chosen = top_k(z.masked_fill(~dead, 0).relu(), min(k, int(dead.sum())))
    return relative_error(residual, F.linear(chosen, decoder), residual.mean(dim=0)).nan_to_num(0.0)


def annealed(k: int, start: int, share: float, progress: float) -> int:
    """Return how many: from `start` down to k over the first `share` of the run, then k (CSRv2)."""
    if start <= k or share <= 0 or progress >= share:
        return k
    return round(start + (k - start) * progress / share)
