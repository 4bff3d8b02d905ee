"""From an image's bytes to its raw vector: admitted, queued, decoded, run. Nothing here knows HTTP."""
