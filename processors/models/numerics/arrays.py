"""Types of arrays that models share."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
