"""Training of non-negative encoders: images -> views -> encoder -> loss -> checkpoint."""

from nonneg_client.telemetry import refuse

refuse()
