"""Go's `math/rand`, version 1: the same numbers for the same seed, so that single runs of Go programs can be repeated.

An additive lagged Fibonacci generator, x[n] = x[n-607] + x[n-273] modulo 2^64. Go seeds it with a table of 607 words.
The table is not copied here: it is the state of the same generator after 7.8e12 steps, and the polynomial x^N modulo
the recurrence's polynomial gives these by squaring (`table`, a fifth of a second, once).

Source: the Go project's math/rand/rng.go and gen_cooked.go describe the generator and how its table was made.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from functools import cache
from typing import Any

_LENGTH, _TAP = 607, 273
_MASK = (1 << 64) - 1
_STEPS = 7_800_000_000_000
#: Bits for each coefficient of a polynomial that is packed into one integer: products of 64 bits, 607 of them summed.
_WIDTH = 144


def _step(x: int) -> int:
    """The multiplicative generator that fills the state."""
    return 48271 * x % 0x7FFFFFFF


def _filled(seed: int, shifts: tuple[int, int]) -> list[int]:
    """A state of 607 words from a seed."""
    x = seed % 0x7FFFFFFF or 89482311
    for _ in range(20):
        x = _step(x)
    words = []
    for _ in range(_LENGTH):
        a = _step(x)
        b = _step(a)
        x = _step(b)
        words.append((a << shifts[0] ^ b << shifts[1] ^ x) & _MASK)
    return words


def _reduced(packed: int) -> int:
    """A packed polynomial modulo x^607 = x^334 + 1, its coefficients modulo 2^64."""
    coefficients = [packed >> _WIDTH * i & _MASK for i in range(2 * _LENGTH)]
    for i in range(2 * _LENGTH - 1, _LENGTH - 1, -1):
        coefficients[i - _LENGTH] += coefficients[i]
        coefficients[i - _TAP] += coefficients[i]
    size = _WIDTH // 8
    return int.from_bytes(
        b"".join((each & _MASK).to_bytes(size, "little") for each in coefficients[:_LENGTH]), "little"
    )


@cache
def table() -> tuple[int, ...]:
    """The 607 words that Go combines with a seed."""
    words = _filled(1, (20, 10))
    y = [words[(333 - i) % _LENGTH] for i in range(_LENGTH)]
    power = 1
    for bit in f"{_STEPS:b}":
        power = _reduced(power * power)
        if bit == "1":
            power = _reduced(power << _WIDTH)
    coefficients = [power >> _WIDTH * i & _MASK for i in range(_LENGTH)]
    y += [0] * _LENGTH
    for n in range(_LENGTH, 2 * _LENGTH):
        y[n] = (y[n - _LENGTH] + y[n - _TAP]) & _MASK
    after = [sum(c * y[i + k] for k, c in enumerate(coefficients)) & _MASK for i in range(_LENGTH)]
    found = [0] * _LENGTH
    for i in range(_LENGTH):
        found[(333 - _STEPS - i) % _LENGTH] = after[i]
    return tuple(found)


class GoRandom:
    """`rand.New(rand.NewSource(seed))` of Go."""

    def __init__(self, seed: int) -> None:
        self._words = [a ^ b for a, b in zip(_filled(seed, (40, 20)), table(), strict=True)]
        self._tap, self._feed = 0, _LENGTH - _TAP

    def int63(self) -> int:
        """The next number of 63 bits."""
        self._tap = (self._tap - 1) % _LENGTH
        self._feed = (self._feed - 1) % _LENGTH
        word = (self._words[self._feed] + self._words[self._tap]) & _MASK
        self._words[self._feed] = word
        return word & (_MASK >> 1)

    def below(self, n: int) -> int:
        """A number from 0 to n - 1; n is at most 2^31 - 1. (`Int31n`)"""
        if n & (n - 1) == 0:
            return (self.int63() >> 32) & (n - 1)
        most = (1 << 31) - 1 - (1 << 31) % n
        drawn = self.int63() >> 32
        while drawn > most:
            drawn = self.int63() >> 32
        return drawn % n

    def _below_quickly(self, n: int) -> int:
        """As `below`, by another method: it draws other numbers. (`int31n`)"""
        product = (self.int63() >> 31) * n
        low = product & 0xFFFFFFFF
        if low < n:
            threshold = ((1 << 32) - n) % n
            while low < threshold:
                product = (self.int63() >> 31) * n
                low = product & 0xFFFFFFFF
        return product >> 32

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle in place. (`Shuffle`)"""
        for i in range(len(items) - 1, 0, -1):
            j = self._below_quickly(i + 1)
            items[i], items[j] = items[j], items[i]

    def permutation(self, n: int) -> list[int]:
        """The numbers from 0 to n - 1 in random order. (`Perm`)"""
        found = [0] * n
        for i in range(n):
            j = self.below(i + 1)
            found[i] = found[j]
            found[j] = i
        return found
