"""Floors with a promise: split conformal prediction of a share that is kept. Pure."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


class Promise(NamedTuple):
    """A floor with its conformal guarantee."""

    floor: float  # queries whose signal is at least this are answered
    guarantee: float  # least probability that a new query with an answer is answered
    probable: float  # share of such queries that is answered at least, in 95 % of calibrations of this size
    n_queries: int  # behind the guarantee


def conformal_floor(with_answer: Float64, answered: float = 0.95) -> Promise | None:
    """Return the floor that answers a new query, if it has an answer, with at least the given probability.

    Split conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random
    World", 2005): of n + 1 exchangeable signals the new one is below the k-th smallest of the
    others with probability at most k/(n + 1); k is the largest for which that is no more than
    1 - ``answered``. The probability is over calibration and new query together; for one
    calibration the share answered is Beta(n + 1 - k, k) distributed, or above (Vovk 2012).
    Queries about other documents, or asked in another way, are not exchangeable with these.

    Args:
        with_answer: (n,) signal of queries that have an answer, none of which fitted the signal.
        answered: The probability, between 0 and 1.

    Returns:
        None where n is below ``queries_needed``: no floor can be promised then.

    Raises:
        ValueError: If ``answered`` is not between 0 and 1.
    """
    from scipy.special import betaincinv

    n = len(with_answer)
    if n < queries_needed(answered):
        return None
    k = _whole(floor, (1 - answered) * (n + 1))
    value = float(np.sort(with_answer)[k - 1])
    return Promise(value, 1 - k / (n + 1), float(betaincinv(n + 1 - k, k, 0.05)), n)


def queries_needed(answered: float = 0.95) -> int:
    """Return the fewest queries from which ``conformal_floor`` can promise the share.

    >>> queries_needed(0.95)
    19

    Raises:
        ValueError: If the share is not between 0 and 1.
    """
    if not 0 < answered < 1:
        raise ValueError(f"a share is between 0 and 1, not {answered}")
    return _whole(ceil, 1 / (1 - answered)) - 1


def _whole(rounded: Callable[[float], int], value: float) -> int:
    """Return ``value`` rounded up or down, after dropping what binary fractions add to decimal ones."""
    return rounded(round(value, 9))
