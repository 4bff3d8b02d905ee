"""What a model is and how it runs: the bundle, its manifest, and the sessions that compute it."""

from nonneg_core.process.start_up import refuse

__all__: list[str] = []

refuse()


def __dir__() -> list[str]:
    return sorted(__all__)
