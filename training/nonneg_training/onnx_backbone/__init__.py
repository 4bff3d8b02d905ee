"""Any ONNX image encoder, made to look like ours: for a head that is trained on it, and for a bundle of it."""

from pathlib import Path

__all__ = ["encoder_file", "is_onnx_file"]

ENCODER = "encoder.onnx"  # in a bundle's folder
CHECKPOINTS = (".ckpt", ".pth", ".pt", ".bin", ".safetensors")
TAKE_OVER = (
    "`nonneg train --from FILE --out RUN` takes over a checkpoint of solo-learn's layout; of another layout load it in "
    "PyTorch and write it with torch.onnx.export"
)


def encoder_file(backbone: str) -> str:
    """Return a backbone's name, or the ONNX encoder in the folder of a bundle."""
    inside = Path(backbone) / ENCODER
    return str(inside) if inside.is_file() else backbone


def is_onnx_file(backbone: str) -> bool:
    """Return whether a backbone's name is the path of an ONNX file."""
    return backbone.endswith(".onnx")


def __dir__() -> list[str]:
    return sorted(__all__)
