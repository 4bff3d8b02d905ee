"""Studies: a grid of runs, what is measured of each, and whether the claims hold; from a TOML file to a verdict."""

from research.study.study_runs import Study

__all__ = ["Study"]


def __dir__() -> list[str]:
    return sorted(__all__)
