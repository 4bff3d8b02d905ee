"""Run `nonneg` so that it decodes no image while a file is there: `held_decoding.py FILE ARGUMENTS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    held, sys.argv[1:] = Path(sys.argv[1]), sys.argv[2:]
    from nonneg_cli.table import main as command
    from nonneg_runtime.seeing.preprocess import Preprocessor

    pixels = Preprocessor.pixels

    def held_back(*given: Any, **named: Any) -> Any:
        while held.exists():
            time.sleep(0.01)
        return pixels(*given, **named)

    Preprocessor.pixels = held_back  # type: ignore[method-assign]
    command()


if __name__ == "__main__":
    main()
