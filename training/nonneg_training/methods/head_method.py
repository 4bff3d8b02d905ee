"""head: a non-negative head on a frozen backbone, trained on cached features, every loss on nested lengths."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_training import losses
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.methods.head_start import HeadStart
from nonneg_training.methods.view_methods import Batch, Method
from nonneg_training.setup.process_group import gather
from nonneg_training.setup.run_settings import HeadSettings, Loss


class HeadMethod(Method):
    """Only the projector learns, and a decoder where reconstruction asks for one; weights of zero switch losses off."""

    mean: Tensor
    quiet: Tensor

    def __init__(
        self, encoder: EncoderModule, loss: Loss, head: HeadSettings, sample: Tensor, fit: HeadStart | None = None
    ) -> None:
        """Begin from `sample`, typical features (n, width); `fit` is what an analytic start was computed from."""
        super().__init__(encoder)
        encoder.backbone.requires_grad_(False)
        width, dimensions = encoder.backbone.width, encoder.dimensions
        self.head, self.temperature = head, loss.temperature
        self.lengths = losses.check_lengths((*loss.lengths, dimensions), dimensions)
        self.parts = tuple(name for name in PARTS if getattr(head, name))
        self.register_buffer("mean", sample.mean(dim=0))  # of the features
        self.register_buffer("quiet", torch.zeros(dimensions, dtype=torch.int64))  # steps since it last fired
        if fit is not None:  # kept for naming and adapting the head
            self.register_buffer("spread_mean", torch.from_numpy(fit.spread.mean))
            self.register_buffer("spread_covariance", torch.from_numpy(fit.spread.covariance))
            self.register_buffer("spread_count", torch.tensor(fit.spread.count))
            self.register_buffer("classes", torch.from_numpy(fit.classes))
            self.register_buffer("places", torch.from_numpy(fit.places))
        self.decoder = nn.Linear(dimensions, width, bias=False) if head.reconstruction else None
        self.k = head.top_k
        self.trained = head.trained or dimensions
        warmth = torch.full((len(self.lengths),), math.log(head.neighbour_temperature))
        self.warmth = nn.Parameter(warmth) if head.learn_temperatures else None  # logarithms of the head's temperatures
        self.scale = float(encoder.output.weight.detach().square().mean().sqrt())
        if self.decoder is not None and not len(encoder.hidden):
            self._tie(self.decoder, sample)

    @torch.no_grad()
    def _tie(self, decoder: nn.Linear, sample: Tensor) -> None:
        """Decode by the head's own rows at first, at the scale that reconstructs best."""
        decoder.weight.copy_(self.encoder.output.weight.T)
        decoded = decoder(self._keep(self.encoder.embed(sample)))
        best = (decoded * (sample - self.mean)).sum() / decoded.square().sum().clamp(min=1e-12)
        decoder.weight.mul_(best)

    def train(self, mode: bool = True) -> "HeadMethod":
        super().train(mode)
        self.encoder.backbone.eval()
        return self

    def advance(self, progress: float) -> None:
        if self.head.top_k:
            self.k = losses.annealed(self.head.top_k, self.head.anneal_from, self.head.anneal_share, progress)

    def pace(self, name: str) -> float:
        """Return a parameter's pace in relative steps: weights by root mean square, temperatures slower than biases."""
        if not self.head.relative:
            return 1.0
        return {"warmth": 1 / 3, "encoder.output.weight": self.scale}.get(name, 1.0)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        x = batch["features"]  # (batch * views, width), first all first views
        views = len(x) // len(batch["labels"])
        raw = self._raw(x)
        z = self._activate(raw)
        terms: dict[str, Tensor] = {}
        if self._needs_similarities():
            x_all, z_all = (torch.cat([gather(part) for part in t.chunk(views)]) for t in (x, z))
            labels = gather(batch["labels"]).repeat(views)
            teacher = self._teacher(x_all, batch.get("taught"), views)
            terms |= self._pairwise(losses.prefix_similarities(z_all, self.lengths), teacher, labels, views)
        if self.decoder is not None:
            terms |= self._reconstruct(x, z, raw)
        if self.head.sparsity:
            terms["sparsity"] = sparsity(z)
        loss = torch.stack([getattr(self.head, name) * value for name, value in terms.items()]).sum()
        return {"loss": loss, **terms}

    def _raw(self, x: Tensor) -> Tensor:
        """Return what is activated; columns that do not learn leave no trace of how they came about."""
        if self.trained == self.encoder.dimensions:
            return self.encoder.preactivation(x)
        rows, layer = self.encoder.rooted(x), self.encoder.output
        with torch.no_grad():
            rest = F.linear(rows, layer.weight[self.trained :], layer.bias[self.trained :])
        return torch.cat([F.linear(rows, layer.weight[: self.trained], layer.bias[: self.trained]), rest], dim=1)

    def _teacher(self, x: Tensor, taught: Tensor | None, views: int) -> Tensor:
        """Return the cosines to follow: of the other teachers' vectors, or of the backbone's own centred features."""
        if taught is None:
            return losses.teacher_similarity(x, self.mean)
        t = torch.cat([gather(part) for part in taught.chunk(views)])
        return t @ t.T

    def _activate(self, raw: Tensor) -> Tensor:
        z = self._keep(self.encoder.activate(raw))
        if self.training:
            with torch.no_grad():
                self.quiet.add_(1).masked_fill_((z > 0).any(dim=0), 0)
        return z

    def _keep(self, z: Tensor) -> Tensor:
        if not self.k:
            return z
        return losses.batch_top_k(z, self.k) if self.head.top_k_of == "batch" else losses.top_k(z, self.k)

    def _needs_similarities(self) -> bool:
        return any(getattr(self.head, name) for name in ("similarity", "neighbours", "contrastive", "labels"))

    def _pairwise(self, students: list[Tensor], teacher: Tensor, labels: Tensor, views: int) -> dict[str, Tensor]:
        """Return what compares pairs, as the mean over the nested lengths."""
        head, terms = self.head, {}
        if head.similarity:
            terms["similarity"] = torch.stack([losses.squared_difference(s, teacher) for s in students]).mean()
        if head.neighbours:
            t = head.neighbour_temperature
            own = [None] * len(students) if self.warmth is None else self.warmth.exp().unbind()
            per_length = [losses.divergence(s, teacher, t, mine) for s, mine in zip(students, own, strict=True)]
            terms["neighbours"] = torch.stack(per_length).mean()
        if head.contrastive:  # the other views of an image are its positives
            owner = torch.arange(len(labels) // views, device=labels.device).repeat(views)
            per_length = [losses.supervised_contrastive(s, owner, self.temperature) for s in students]
            terms["contrastive"] = torch.stack(per_length).mean()
        if head.labels:
            per_length = [losses.supervised_contrastive(s, labels, self.temperature) for s in students]
            terms["labels"] = torch.stack(per_length).mean()
        return terms

    def _reconstruct(self, x: Tensor, z: Tensor, raw: Tensor) -> dict[str, Tensor]:
        """Return the mean reconstruction error over the prefixes, plus the revival loss of dead dimensions."""
        assert self.decoder is not None
        weight = self.decoder.weight  # (width, D)
        errors = [
            losses.relative_error(x, F.linear(z[:, :k], weight[:, :k]) + self.mean, self.mean) for k in self.lengths
        ]
        if self.k and 4 * self.k < z.shape[1]:  # CSR: the same with 4k kept, at an eighth of the weight
            wide = losses.top_k(self.encoder.activate(raw), 4 * self.k)
            errors.append(losses.relative_error(x, F.linear(wide, weight) + self.mean, self.mean) / 8)
        terms = {"reconstruction": torch.stack(errors).sum() / len(self.lengths)}
        if self.head.revive:
            residual = (x - self.mean - F.linear(z, weight)).detach()
            dead = self.quiet >= self.head.dead_after
            terms["revive"] = losses.revival(raw, dead, residual, weight, self.head.revive_k)
        return terms


PARTS = ("similarity", "neighbours", "contrastive", "labels", "reconstruction", "revive", "sparsity")


def sparsity(z: Tensor) -> Tensor:
    """Average |z|_1 / |z|_2 over vectors, over the square root of D: 1 when all are equal, less when few are active."""
    z = z.float()
    ratio: Tensor = z.sum(dim=1) / z.norm(dim=1).clamp(min=losses.SHORTEST)
    share: Tensor = ratio.mean() / z.shape[1] ** 0.5
    return share
