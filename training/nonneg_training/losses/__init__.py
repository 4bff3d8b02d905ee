"""The losses: pure functions of tensors, one formula a file."""
