"""What compiled loops have in common: which rounding may differ, their types, and an exponential that runs in lanes.

Numba keeps compiled code by the text of the file that a function stands in, and does not see what that imports. Whoever changes `FASTER` or
`exponential` changes the text of `between.py`, `attention.py`, `attention_rounded.py` and `likely.py` as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FASTER = {"reassoc", "contract", "nsz"}  # sums may be made in lanes; quotients and roots are exact, as estimates differ by maker
F = np.float32

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Powers = npt.NDArray[np.int32]


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy", forceinline=True)
def exponential(x: np.float32) -> tuple[np.float32, np.int32]:
    """exp(x) for |x| <= 87 as a product: a number, and one that has these bits in memory.

    exp(x) = 2^n exp(r) with n whole and |r| <= log(2) / 2, of which a polynomial of degree 7 tells all 24 bits but the last (the
    coefficients of Cephes' expf), and 2^n is a number whose exponent is n: a loop over it has no call in it.
    """
    n = np.floor(x * F(1.44269504) + F(0.5))
    r = x - n * F(0.693359375) + n * F(2.12194440e-4)
    y = F(1.9875691500e-4) * r + F(1.3981999507e-3)
    y = ((y * r + F(8.3334519073e-3)) * r + F(4.1665795894e-2)) * r + F(1.6666665459e-1)
    return (y * r + F(5.0000001201e-1)) * r * r + r + F(1), (np.int32(n) + np.int32(127)) << np.int32(23)
