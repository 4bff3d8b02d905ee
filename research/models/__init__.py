"""The shipped models: built from published backbones, with names and words for their dimensions."""
