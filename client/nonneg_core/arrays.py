"""Names of numpy's array types, so that a signature says what kind of numbers it takes."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.float32]  # a vector an image, (images, D)
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Places = NDArray[np.intp]  # indices of another array
Flags = NDArray[np.bool_]
