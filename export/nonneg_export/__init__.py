"""From a checkpoint to a bundle: ONNX with the ranking built in, verified, with its evidence beside it."""
