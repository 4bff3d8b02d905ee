"""The encoder: backbones by name, projector and activation, and the text tower beside it."""
