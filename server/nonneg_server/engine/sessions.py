"""A bundle's sessions: opened when they are needed, tested, forgotten when memory is short, watched while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nonneg_client.errors import CheckFailed, NonnegError, NotReady
from nonneg_client.pixels.view import Pixels
from nonneg_export.bundle import ENCODER, Bundle, open_bundle
from nonneg_export.device import warm_sizes
from nonneg_export.runtime import Runner, open_session
from nonneg_server.engine.golden import golden_cosine

FAILURES_THAT_MEAN_DEATH = 3  # runs that fail one after the other, none succeeding in between


class Sessions:
    """One session for every width (cores it computes on), the narrowest first."""

    def __init__(
        self,
        bundle: Bundle,
        widths: tuple[int, ...],
        providers: tuple[str, ...] | None = None,
        *,
        callers: int = 1,
        largest: int = 1,
    ) -> None:
        self.on_load: Callable[[], None] | None = None
        self._bundle = bundle
        self._widths = widths
        self._providers = providers
        self._callers = callers
        self._largest = largest
        self._loading = threading.Lock()
        self._sessions: tuple[Runner, ...] | None = None
        self._opened_before = False
        self._failures = 0
        self._load()

    @property
    def loaded(self) -> bool:
        return self._sessions is not None

    @property
    def several(self) -> bool:
        return len(self._widths) > 1

    @property
    def weight(self) -> int:
        """Bytes of weights that they hold while they are loaded."""
        stored = self._bundle.manifest.files[ENCODER].bytes
        widened = 2 if self._bundle.manifest.precision == "fp16" else 1
        return stored * widened * len(self._widths)

    def rest(self) -> None:
        """Forget the weights; whoever needs them next loads them again."""
        self._sessions = None

    def warm_up(self) -> None:
        """Run each once, against the vector that the exporter wrote down, and at every batch size to come."""
        for session in self._load():
            found, wanted = golden_cosine(self._bundle, session), self._bundle.manifest.golden.tolerance
            if not found >= wanted:
                raise CheckFailed(
                    f"{self._bundle.path} fails its self-test: cosine {found:.6f} to the exporter's vector, "
                    f"at least {wanted} is due",
                    fix="reinstall onnxruntime, or export the bundle again on this machine",
                    value=found,
                    limit=wanted,
                )
        size = self._bundle.manifest.view.size
        for batch in warm_sizes(self._largest)[1:]:
            self.run(np.zeros((batch, size, size, 3), np.uint8))

    def run(self, pixels: Pixels, *, wide: bool = False) -> NDArray[np.float32]:
        """Raw vectors (batch, D), computed on the calling thread or, wide, on every core."""
        sessions = self._sessions or self._load()
        try:
            vectors = sessions[-1 if wide else 0].run(pixels)
        except Exception as error:  # pixels of the right shape never fail: it is the runtime that does
            self._failures += 1
            raise NonnegError(
                f"the encoder failed on an image ({type(error).__name__})", fix="try again; the server's log says more"
            ) from error
        self._failures = 0
        return vectors

    def ailment(self) -> str | None:
        if self._failures >= FAILURES_THAT_MEAN_DEATH:
            return f"the encoder of {self._bundle.manifest.name} failed {self._failures} times in a row"
        return None

    def _load(self) -> tuple[Runner, ...]:
        """Open them if they are not; a bundle that changed since it was first opened is refused."""
        with self._loading:
            if self._sessions is not None:
                return self._sessions
            manifest = self._bundle.manifest
            if self._opened_before and open_bundle(self._bundle.path).manifest.fingerprint != manifest.fingerprint:
                raise NotReady(f"the bundle of {manifest.name} was replaced", fix="reload the model", retry_after=1)
            self._opened_before = True
            sessions = tuple(self._open(width) for width in self._widths)
            self._sessions = sessions
        if self.on_load is not None:
            self.on_load()
        return sessions

    def _open(self, width: int) -> Runner:
        return open_session(
            self._bundle.encoder,
            threads=width,
            callers=self._callers,
            largest=self._largest,
            providers=self._providers,
            precision=self._bundle.manifest.precision,
        )
