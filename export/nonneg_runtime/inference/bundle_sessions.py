"""A bundle's sessions: opened when they are needed, tested, forgotten when memory is short, watched while they run."""

import logging
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np

from nonneg_core.arrays import Floats
from nonneg_core.errors import BundleInvalid, CheckFailed, DataInvalid, NonnegError, NotReady, StorageFailed
from nonneg_core.pixels.view import Pixels
from nonneg_core.process.cores_and_allocator import trim
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.device_session import warm_sizes
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.onnx_session import Session, sessions_sharing_weights
from nonneg_runtime.inference.runner import Runner, check_golden
from nonneg_runtime.inference.text_tower import RestingTextTower, Tower, check_tokenizers

logger = logging.getLogger("nonneg")
SHARED_FROM = 32 * 2**20  # bytes of weights; with fewer, what else a session holds is more
FAILURES_THAT_MEAN_DEATH = 3  # runs that fail one after the other, none succeeding in between


class Sessions:
    """A shared session on `threads` cores; a second one on `spread` cores, opened on first use."""

    def __init__(
        self,
        bundle: Bundle,
        providers: tuple[str, ...] | None = None,
        *,
        threads: int = 1,
        spread: int = 0,
        callers: int = 1,
        largest: int = 1,
        shared_from: int = SHARED_FROM,
    ) -> None:
        self.on_load: Callable[[], None] | None = None
        self.room: Callable[[int], bool] | None = None  # whether the memory has so many bytes left
        self.bundle = bundle
        self._providers = providers
        self._threads = threads
        self._spread = spread
        self._callers = callers
        self._largest = largest
        self._shared_from = shared_from
        self._loading = threading.Lock()
        self._changing = threading.Lock()
        self.session: Runner | None = None  # the shared one, while it is loaded
        self._wide = AllCoresSession()
        self._text = RestingTextTower(bundle)
        self._shared = False  # one copy of the weights for both
        self._opened_before = False
        self._failures = 0
        self._load()

    @property
    def loaded(self) -> bool:
        return self.session is not None or self._text.tower is not None

    @property
    def wide(self) -> bool:
        """Whether one image can be computed on all cores now."""
        return self._wide.session is not None

    @property
    def began_wide(self) -> bool:
        """Whether the session on all cores is open, or is being opened, or could not be."""
        return self._wide.begun

    @property
    def weight(self) -> int:
        """Bytes of weights that they hold while they are loaded."""
        encoders = 0 if self.session is None else 1 if self._shared else 1 + self.wide
        return self._each * encoders + self._text.weight

    def unload(self) -> None:
        """Forget the weights; the next run loads them again."""
        with self._changing:
            self.session, self._shared = None, False
            self._text.rest()
            self._wide = AllCoresSession()  # one that is being opened at this moment is dropped when it is there

    def warm_up(self) -> None:
        """Run at every batch size to come, and against the vector that the exporter wrote down."""
        session, size = self._load(), self.bundle.manifest.view.size
        for batch in reversed(
            warm_sizes(self._largest)[1:]
        ):  # TensorRT builds another engine for larger or smaller ones
            self._try(np.zeros((batch, size, size, 3), np.uint8))
        self._test(session)

    def warm_up_text(self) -> None:
        """Open and test the bundle's own text tower; the encoder of sentences is opened when a text first comes."""
        if self.bundle.manifest.text is not None:
            self.text()
        elif self.bundle.manifest.takes_texts:
            check_tokenizers()

    def open_all_cores(self) -> None:
        """Open the wide session for the next image, in the background, if there is to be one: an image was alone."""
        if self._spread and not self._wide.begun and (self._shareable or self._has_room()):
            self._wide.begin(self.open_wide)

    def run(self, pixels: Pixels, *, wide: bool = False) -> Floats:
        """Compute raw vectors (batch, D) on the calling thread or, `wide` and if there is one, on every core."""
        session = (self._wide.session if wide else None) or self.session or self._load()
        try:
            vectors = session.run(pixels)
        except Exception as error:  # pixels of the right shape never fail: it is the runtime that does
            self._failures += 1
            raise NonnegError(
                f"the encoder failed on an image ({type(error).__name__})", fix="try again; the server's log says more"
            ) from error
        self._failures = 0
        return vectors

    def text(self) -> Tower | None:
        """Return the bundle's text tower, loaded if it is not; None where it has none."""
        tower, fresh = self._text.opened(self._check_unchanged)
        if fresh and self.on_load is not None:
            self.on_load()
        return tower

    def failure_reason(self) -> str | None:
        if self._failures >= FAILURES_THAT_MEAN_DEATH:
            return f"the encoder of {self.bundle.manifest.name} failed {self._failures} times in a row"
        return None

    @property
    def _each(self) -> int:
        stored = self.bundle.stored
        return stored * (2 if self.bundle.manifest.precision == "fp16" else 1)  # halves are widened

    @property
    def _shareable(self) -> bool:
        return isinstance(self.session, Session) and self._each >= self._shared_from

    def _has_room(self) -> bool:
        return self.room is None or self.room(self._each)

    def _load(self) -> Runner:
        """Open it if it is not; a bundle that changed since it was first opened is refused."""
        with self._loading:
            if self.session is not None:
                return self.session
            if self._opened_before:
                self._reload()
            self._opened_before = True
            session = self.session = self._open(self._threads)
        if self.on_load is not None:
            self.on_load()
        return session

    def _reload(self) -> None:
        """Open it again after unloading; refuse a folder that has changed meanwhile."""
        try:
            self._check_unchanged()
        except NotReady as error:
            logger.error("%s, which rested, cannot be loaded again: %s", error, error.__cause__ or "another model")
            raise

    def open_wide(self) -> Runner:
        """Open two sessions that share large weights if they can; otherwise only where there is room for both."""
        self._check_unchanged()
        if self._shareable:
            try:
                return self._open_twins()
            except (StorageFailed, BundleInvalid) as error:
                logger.info("the weights of %s cannot be shared: %s", self.bundle.manifest.name, error)
        if not self._has_room():
            raise NotReady("the memory left is too small for a second copy of the weights", fix="raise --model-memory")
        session = self._open(self._spread)
        self._test(session)
        return session

    def _open_twins(self) -> Runner:
        """Replace the session by one that shares its weights with the wide one, unless it was put to rest meanwhile."""
        before, wide = self.session, self._wide
        twin, broad = sessions_sharing_weights(self.bundle.encoder, (self._threads, self._spread))
        self._test(twin)
        self._test(broad)
        with self._changing:
            if before is not None and self.session is before and self._wide is wide:
                self.session, self._shared = twin, True
                wide.replaced = weakref.ref(before)
        return broad

    def _check_unchanged(self) -> None:
        manifest = self.bundle.manifest
        try:
            current = open_bundle(self.bundle.path).manifest.fingerprint
        except (BundleInvalid, DataInvalid, StorageFailed) as error:
            raise NotReady(
                f"the bundle of {manifest.name} is damaged", fix="put it back whole", retry_after=1
            ) from error
        if current != manifest.fingerprint:
            raise NotReady(f"the bundle of {manifest.name} was replaced", fix="reload the model", retry_after=1)

    def _try(self, batch: Pixels) -> None:
        """Try a batch: a device may have no memory for so many."""
        try:
            self.run(batch)
        except NonnegError as error:
            raise CheckFailed(
                f"{self.bundle.path} cannot be computed for {len(batch)} images at once ({error.__cause__})",
                fix="ask for a smaller --batch",
                field="batch",
                value=len(batch),
            ) from error

    def _test(self, session: Runner) -> None:
        check_golden(session, self.bundle.manifest)

    def _open(self, threads: int) -> Runner:
        return open_session(
            self.bundle.encoder,
            threads=threads,
            callers=self._callers,
            largest=self._largest,
            providers=self._providers,
            precision=self.bundle.manifest.precision,
        )


# The session that spreads one image over all cores: opened in the background when an image first is alone.
#
# A server is ready sooner without it, and one that never sees a lone image never pays for it.

LAST_RUNS = 10.0  # seconds in which a replaced session finishes what it is at; then its memory can be given back


class AllCoresSession:
    """`session` is there when it is open and tested; one that cannot be opened is not tried again."""

    def __init__(self) -> None:
        self.session: Runner | None = None
        self.replaced: weakref.ref[Runner] | None = None  # one that shared no weights with it
        self._begun = threading.Lock()  # never released

    @property
    def begun(self) -> bool:
        return self._begun.locked()

    def begin(self, open_it: Callable[[], Runner]) -> None:
        """Begin to open it, if that has not begun; does not wait."""
        if self._begun.acquire(blocking=False):  # no daemon, as its caller is: the process must not end during its work
            threading.Thread(target=self._open, args=(open_it,), name="wide", daemon=False).start()

    def _open(self, open_it: Callable[[], Runner]) -> None:
        try:
            self.session = open_it()
        except NonnegError as error:  # most likely the file was replaced, and a reload is to follow
            level = logging.WARNING if isinstance(error, CheckFailed) else logging.INFO
            logger.log(level, "a lone image will be computed on one core: %s", error)
        until = time.monotonic() + LAST_RUNS
        while self.replaced is not None and self.replaced() is not None and time.monotonic() < until:
            time.sleep(0.01)
        trim()
