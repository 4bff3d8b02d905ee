"""Sessions that run an encoder: on a processor or a GPU, in ONNX Runtime or OpenVINO, kept as long as memory allows."""
