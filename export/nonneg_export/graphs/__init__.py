"""ONNX graphs: made from torch, written in one canonical form, and edited at their last layers."""
