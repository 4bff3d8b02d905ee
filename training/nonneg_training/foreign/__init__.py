"""Anybody's ONNX image encoder, made to look like ours: for a head that is trained on it, and for a bundle of it."""
