"""Training of non-negative encoders: images -> views -> encoder -> loss -> checkpoint."""
