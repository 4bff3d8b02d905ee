"""What a model is and how it runs: the bundle, its manifest, and the sessions that compute it."""

from nonneg_core.telemetry import refuse

refuse()
