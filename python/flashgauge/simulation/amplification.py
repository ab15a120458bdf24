"""Write amplification under uniform random overwrites, by closed forms.

Greedy after Desnoyers (2012, 2014), Bux and Iliadis (2010); FIFO after Menon, Xiang and Kurkoski (2011), Desnoyers;
random and the best of d after Van Houdt (2013). alpha is physical / logical units in use, a block what is collected.
"""

from __future__ import annotations

from math import exp

# A larger block changes the write amplification of the best of d by less than 0.05 %.
LARGEST_BLOCK = 1 << 14
# ... and that of greedy by less than 0.001 %.
LARGEST_GREEDY_BLOCK = 1 << 20


def lambert_w0(x: float) -> float:
    """The root above -1 of w e^w = x, for -1/e < x < 0: Newton from the right."""
    if not -exp(-1) < x < 0:
        raise ValueError(f"W0({x}): only -1/e < x < 0 is possible")
    w = 0.0
    for _ in range(200):
        step = (w * exp(w) - x) / ((w + 1) * exp(w))
        w -= step
        if abs(step) < 1e-15:
            break
    return w


def _with_spare(alpha: float) -> None:
    if alpha <= 1:
        raise ValueError(f"alpha {alpha}: without spare capacity nothing can be collected")


def fifo(alpha: float) -> float:
    """The block that was filled first: A = alpha / (alpha + W0(-alpha e^-alpha))."""
    _with_spare(alpha)
    return alpha / (alpha + lambert_w0(-alpha * exp(-alpha)))


def greedy(alpha: float, block_units: int) -> float:
    """The block with the fewest valid units.

    Victims have one of two successive valid counts m and m + 1; g and a are their weights: g (b - m - 1) + a = 1 and
    g (H_b - H_{m+1}) + a / (m + 1) = alpha / b, with 0 <= a <= g and H the harmonic numbers. A = b g.
    """
    _with_spare(alpha)
    b = min(block_units, LARGEST_GREEDY_BLOCK)
    between = 0.0  # H_b - H_{m+1}
    for after in range(b - 1, 0, -1):  # m + 1
        between += 1 / (after + 1)
        rest = b - after
        g = (alpha / b - 1 / after) / (between - rest / after)
        a = 1 - g * rest
        if 0 <= a <= g * (1 + 1e-9):
            return b * g
    return 1.0  # alpha >= H_b: victims are empty.


def random(alpha: float) -> float:
    """Any block: A = alpha / (alpha - 1)."""
    _with_spare(alpha)
    return alpha / (alpha - 1)


def best_of(alpha: float, block_units: int, choices: int) -> float:
    """The best of so many blocks drawn at random.

    Let S_j be the share of the blocks with j or more valid units. Then c (1 - S_j^d) = j (S_j - S_j+1), where
    c = A / alpha, and the S_j add up to the mean valid count b / alpha, which gives c.
    """
    _with_spare(alpha)
    if choices == 1:
        return random(alpha)
    b = min(block_units, LARGEST_BLOCK)
    low, high = 1 / alpha, 1 / (alpha - 1)  # Nothing is amplified; random.
    while high - low > 1e-7 * high:
        c = (low + high) / 2
        if _mean_valid(c, b, choices) < b / alpha:
            low = c
        else:
            high = c
    return alpha * (low + high) / 2


def _mean_valid(c: float, b: int, d: int) -> float:
    """The sum of all S_j, from the fullest blocks down; each S_j by Newton, on a curve that bends upwards."""
    share, total = 0.0, 0.0
    for j in range(b, 0, -1):
        above = share
        while True:
            power = share ** (d - 1)
            step = (j * (share - above) - c * (1 - power * share)) / (j + c * d * power)
            share -= step
            if abs(step) < 1e-12:
                break
        total += share
    return total
