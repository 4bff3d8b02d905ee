"""Files: written whole or not at all, read as tables, tensors or images."""
