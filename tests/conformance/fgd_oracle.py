"""A second, independent simulation of the openb experiment, to hold `waggle simulate --trace openb` against.

It was written from the description of the experiment, without a look at `algorithm/fgd` or `extender/lab`, and it
imports nothing of Waggle. The order of pods that are thinned, and how numbers are rounded, were checked in the source
of the authors' simulator (`hkust-adsl/kubernetes-scheduler-simulator`, Apache-2.0). It is plain: each pod asks every
node, and a score depends on the node's state alone. Only equal questions are answered from memory: a published trace
takes two seconds.

    python -m tests.conformance.fgd_oracle --nodes NODES.csv --pods PODS.csv --policy FGD --seed 42 --json OUT
"""

import argparse
import csv
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

M64 = 2**64 - 1
WORDS = 607  # words of the generator's state; a word is the sum of those 607 and 273 draws before it
TAP = 273
MAX_PODS = 1001  # of one node
CPU_SCALE, GPU_SCALE = 128_000, 8_000  # of every node, whatever its size


# Go's random numbers


def _seeded(seed: int, first: int, second: int) -> list[int]:
    """Return 607 words from the Lehmer generator with which Go fills its state, still without Go's constants."""
    x = seed % (2**31 - 1) or 89482311
    step = lambda y: 48271 * y % (2**31 - 1)  # noqa: E731
    for _ in range(20):
        x = step(x)
    words = []
    for _ in range(WORDS):
        a = step(x)
        b = step(a)
        x = step(b)
        words.append(((a << first) ^ (b << second) ^ x) & M64)
    return words


def _times(p: list[int], q: list[int]) -> list[int]:
    """Return p x q modulo x^607 = x^334 + 1 and modulo 2^64, as polynomials packed into one integer each."""
    width = 144  # bits of a coefficient: 64 + 64, and 10 for the sum of 607 products
    product = _packed(p, width) * _packed(q, width)
    size = (2 * WORDS - 1) * width // 8 + 8
    raw = product.to_bytes(size, "little")
    step = width // 8
    out = [int.from_bytes(raw[i * step : i * step + 8], "little") for i in range(2 * WORDS - 1)]
    for i in range(len(out) - 1, WORDS - 1, -1):
        out[i - WORDS] += out[i]
        out[i - TAP] += out[i]
    return [value & M64 for value in out[:WORDS]]


def _packed(p: list[int], width: int) -> int:
    return int.from_bytes(b"".join(value.to_bytes(width // 8, "little") for value in p), "little")


@cache
def go_constants(draws: int = 7_800_000_000_000) -> list[int]:
    """Return Go's 607 constants: the state after 7.8e12 draws of the generator without constants."""
    before = _seeded(1, 20, 10)
    y = [before[(333 - i) % WORDS] for i in range(WORDS)]
    power = [1] + [0] * (WORDS - 1)
    x = [0, 1] + [0] * (WORDS - 2)
    for bit in bin(draws)[2:]:
        power = _times(power, power)
        if bit == "1":
            power = _times(power, x)
    for n in range(WORDS, 2 * WORDS):
        y.append((y[n - WORDS] + y[n - TAP]) & M64)
    after = [sum(c * y[i + k] for k, c in enumerate(power)) & M64 for i in range(WORDS)]
    state = [0] * WORDS
    for i in range(WORDS):
        state[(333 - draws - i) % WORDS] = after[i]
    return state


class GoRandom:
    """Go's `math/rand`, version 1."""

    def __init__(self, seed: int) -> None:
        self.words = [w ^ k for w, k in zip(_seeded(seed, 40, 20), go_constants(), strict=True)]
        self.tap, self.feed = 0, 334

    def int63(self) -> int:
        self.tap = (self.tap - 1) % WORDS
        self.feed = (self.feed - 1) % WORDS
        self.words[self.feed] = (self.words[self.feed] + self.words[self.tap]) & M64
        return self.words[self.feed] & (2**63 - 1)

    def below(self, n: int) -> int:
        if n & (n - 1) == 0:
            return (self.int63() >> 32) & (n - 1)
        most = 2**31 - 1 - 2**31 % n
        while (value := self.int63() >> 32) > most:
            pass
        return value % n

    def shuffle(self, items: list["Pod"]) -> None:
        for i in range(len(items) - 1, 0, -1):
            n = i + 1
            p = (self.int63() >> 31) * n
            if p % 2**32 < n:
                while p % 2**32 < (2**32 - n) % n:
                    p = (self.int63() >> 31) * n
            j = p >> 32
            items[i], items[j] = items[j], items[i]

    def permutation(self, n: int) -> list[int]:
        m = [0] * n
        for i in range(n):
            j = self.below(i + 1)
            m[i] = m[j]
            m[j] = i
        return m


# Pods and nodes


@dataclass(frozen=True)
class Pod:
    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int  # of each GPU
    spec: str

    @property
    def request(self) -> int:
        return self.gpus * self.milli

    @property
    def kind(self) -> tuple[int, int, int, str]:
        return (self.cpu, self.milli, self.gpus, self.spec)

    @property
    def tag(self) -> str:
        return "shared" if self.milli < 1000 else f"{self.gpus}-gpu"

    def accepts(self, model: str) -> bool:
        return not self.spec or model in self.spec.split("|")


@dataclass
class Node:
    name: str
    model: str
    cpu: int
    memory: int
    rests: list[int]  # milli left of each GPU
    pods: int = 0
    tags: tuple[str, ...] = ()  # of its GPU pods, each once, sorted
    rank: int = 0

    def state(self) -> "State":
        return State(self.model, self.cpu, self.memory, tuple(self.rests), self.pods < MAX_PODS, self.tags)


@dataclass(frozen=True)
class State:
    """All that may decide about a node, except its rank."""

    model: str
    cpu: int
    memory: int
    rests: tuple[int, ...]
    admits: bool
    tags: tuple[str, ...]


def read_pods(path: Path) -> list[Pod]:
    pods = []
    for row in _rows(path):
        gpus = int(row["num_gpu"])
        milli = min(int(row["gpu_milli"] or 0), 1000) if gpus else 0
        spec = "|".join(part for part in (row.get("gpu_spec") or "").split("|") if part) if gpus else ""
        pods.append(Pod(row["name"], int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, spec))
    return pods


def read_nodes(path: Path) -> list[Node]:
    return [
        Node(row["sn"], row["model"] or "", int(row["cpu_milli"]), int(row["memory_mib"]), [1000] * int(row["gpu"]))
        for row in _rows(path)
    ]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


# Arrivals


def arrivals(pods: list[Pod], nodes: list[Node], seed: int) -> list[Pod]:
    """Return the pods in the order in which they arrive, and give each node its rank."""
    go = GoRandom(seed)
    original = sorted(pods, key=lambda pod: pod.name)
    queue = list(original)
    go.int63()
    go.shuffle(queue)
    tune(queue, original, 1300 * sum(len(node.rests) for node in nodes), go)
    for _ in range(10):
        go.int63()
    nodes.sort(key=lambda node: node.name)
    for node, rank in zip(nodes, go.permutation(len(nodes)), strict=True):
        node.rank = rank
    return queue


def tune(queue: list[Pod], original: list[Pod], target: int, go: GoRandom) -> None:
    """Enlarge the queue by pods of the original trace, or thin it, until it asks for `target` milli."""
    total = sum(pod.request for pod in queue)
    if total < target:
        while total + (pod := original[go.below(len(original))]).milli <= target:
            total += pod.request
            queue.append(pod)
    else:
        while total > target:
            total -= queue.pop(go.below(len(queue))).request


# Fragmentation


def typical_pods(pods: list[Pod]) -> list[tuple[Pod, float]]:
    """Return one pod of each typical class, with its share."""
    counts = Counter(pod.kind for pod in pods)
    kept, running = [], 0
    for kind, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if 100 * running >= 95 * len(pods):
            break
        kept.append((kind, count))
        running += count
    of_kept = running / len(pods)
    return [
        (Pod("", cpu, 0, gpus, milli, spec), count / len(pods) / of_kept) for (cpu, milli, gpus, spec), count in kept
    ]


class Fragmentation:
    """F of a node, for given typical pods."""

    def __init__(self, typical: list[tuple[Pod, float]]) -> None:
        self.typical = typical
        self.known: dict[tuple[str, int, tuple[int, ...]], float] = {}

    def of(self, model: str, cpu: int, rests: tuple[int, ...]) -> float:
        key = (model, cpu, tuple(sorted(rests)))
        if key not in self.known:
            self.known[key] = self._compute(*key)
        return self.known[key]

    def _compute(self, model: str, cpu: int, rests: tuple[int, ...]) -> float:
        left = sum(rests)
        q1 = q2 = q4 = xl = xr = na = 0.0
        for pod, p in self.typical:
            if pod.gpus == 0:
                if cpu >= pod.cpu:
                    xl += p * left
                else:
                    xr += p * left
            elif not pod.accepts(model):
                na += p * left
            elif sum(rest >= pod.milli for rest in rests) >= pod.gpus:
                if cpu >= pod.cpu:
                    q2 += p * sum(rest for rest in rests if rest < pod.milli)
                else:
                    q4 += p * left
            elif cpu >= pod.cpu:
                q2 += p * left
            else:
                q1 += p * left
        return q1 + q2 + q4 + xl + xr + na


# Policies: the score of a node that fits, and the GPUs that a pod takes


def fits(pod: Pod, node: State) -> bool:
    return (
        node.admits
        and node.cpu >= pod.cpu
        and node.memory >= pod.memory
        and (not pod.gpus or (pod.accepts(node.model) and sum(rest >= pod.milli for rest in node.rests) >= pod.gpus))
    )


def best_fit_gpus(pod: Pod, rests: tuple[int, ...]) -> list[int]:
    """Return the GPUs with the least left that suffice; of equal ones the first."""
    enough = [i for i, rest in enumerate(rests) if rest >= pod.milli]
    return sorted(enough, key=lambda i: (rests[i], i))[: pod.gpus]


def dot_product(pod: Pod, node: State) -> int:
    product = node.cpu / CPU_SCALE * (pod.cpu / CPU_SCALE) + sum(node.rests) / GPU_SCALE * (pod.request / GPU_SCALE)
    return int(100 * (1 - product / 2))


def clustering(pod: Pod, node: State) -> int:
    if not pod.gpus:
        return 0
    if not node.tags:
        base = 25
    elif pod.tag not in node.tags:
        base = 0
    else:
        base = 75 if len(node.tags) == 1 else 50
    return base + int(25 * (GPU_SCALE - sum(node.rests)) / GPU_SCALE)


def packing(pod: Pod, node: State) -> int:
    if not pod.gpus:
        return 0
    free = sum(rest == 1000 for rest in node.rests)
    if free == len(node.rests):
        return max(33 - free, free)
    chosen = [node.rests[i] for i in best_fit_gpus(pod, node.rests)]
    if newly := sum(rest == 1000 for rest in chosen):
        return max(50 - newly, 33)
    return max(100 - sum(100 * rest // 1000 for rest in chosen) // 10, 50)


def best_fit(pod: Pod, node: State) -> int:
    cpu, gpu = node.cpu - pod.cpu, sum(node.rests) - pod.request
    return int(100 * (1 - (0.5 * cpu / CPU_SCALE + 0.5 * gpu / GPU_SCALE)))


def normalised(scores: dict[int, int]) -> dict[int, int]:
    low, high = min(scores.values()), max(scores.values())
    return {i: (s - low) * 100 // (high - low) if high > low else 0 for i, s in scores.items()}


@dataclass
class Descent:
    """The policy FGD."""

    fragmentation: Fragmentation

    def score(self, pod: Pod, node: State) -> int:
        return self._best(pod, node)[0]

    def gpus(self, pod: Pod, node: State) -> list[int]:
        return self._best(pod, node)[1]

    def _best(self, pod: Pod, node: State) -> tuple[int, list[int]]:
        before = self.fragmentation.of(node.model, node.cpu, node.rests)
        if 0 < pod.milli < 1000:
            choices = [[i] for i, rest in enumerate(node.rests) if rest >= pod.milli]
        else:
            choices = [best_fit_gpus(pod, node.rests)]
        best, chosen = -1, choices[0]
        for choice in choices:
            rests = tuple(rest - pod.milli * (i in choice) for i, rest in enumerate(node.rests))
            after = self.fragmentation.of(node.model, node.cpu - pod.cpu, rests)
            score = int(100 / (1 + math.exp(-(before - after) / 1000)))
            if score > best:
                best, chosen = score, choice
        return best, chosen


SCORES: dict[str, Callable[[Pod, State], int]] = {
    "DotProd": dot_product,
    "GpuClustering": clustering,
    "GpuPacking": packing,
    "BestFit": best_fit,
}
POLICIES = ("Random", *SCORES, "FGD")


# The run


def numpy_round(value: float) -> float:
    return round(100 * value) / 100


def numpy_sum(values: list[float]) -> float:
    """Return the sum as numpy 1.24 computes it, whose last bit decides how some means are rounded."""
    n = len(values)
    if n > 128:
        half = n // 16 * 8
        return numpy_sum(values[:half]) + numpy_sum(values[half:])
    lanes = [0.0] * 8
    whole = n - n % 8
    for i in range(whole):
        lanes[i % 8] += values[i]
    while len(lanes) > 1:
        lanes = [lanes[i] + lanes[i + 1] for i in range(0, len(lanes), 2)]
    for value in values[whole:]:
        lanes[0] += value
    return lanes[0]


@dataclass
class Line:
    arrived: int
    used: int
    fragmented: float


@dataclass
class Run:
    total: int
    lines: list[Line] = field(default_factory=list)
    placed: list[tuple[str, str]] = field(default_factory=list)  # pod, node; "" if it fits nowhere

    def column(self, k: int, value: Callable[[Line], float]) -> float | None:
        """Return the mean of `value` over the lines of column k, or else of those beside it; None if there are none."""
        by_percent = self._by_percent()
        lines = by_percent.get(k) or [line for near in (k - 1, k, k + 1) for line in by_percent.get(near, [])]
        values = [number for line in lines if not math.isnan(number := value(line))]
        return numpy_sum(values) / len(values) if values else None

    def _by_percent(self) -> dict[int, list[Line]]:
        found: dict[int, list[Line]] = {}
        for line in self.lines:
            found.setdefault(round(line.arrived / (self.total // 1000) / 10), []).append(line)
        return found

    def columns(self) -> dict[str, list[float | None]]:
        total = self.total
        allocation = [self.column(k, lambda line: round(line.used / (total // 1000) / 10, 2)) for k in range(131)]
        amount = [self.column(k, lambda line: round(line.fragmented, 2)) for k in range(131)]
        ratio = [self.column(k, self._ratio) for k in range(131)]
        return {
            "allocation": [None if a is None else numpy_round(a) for a in allocation],
            "amount": [None if f is None else numpy_round(100 * f / 1000 / (total // 1000)) for f in amount],
            "ratio": ratio,
        }

    def _ratio(self, line: Line) -> float:
        idle = self.total - line.used
        return round(100 * line.fragmented / idle, 2) if idle else math.nan


def simulate(nodes: list[Node], pods: list[Pod], policy: str, seed: int) -> Run:
    fragmentation = Fragmentation(typical_pods(pods))
    descent = Descent(fragmentation)
    score = descent.score if policy == "FGD" else SCORES.get(policy, lambda _pod, _node: 0)
    queue = arrivals(pods, nodes, seed)
    nodes = sorted(nodes, key=lambda node: node.rank)
    chance = random.Random(seed)
    run = Run(sum(1000 * len(node.rests) for node in nodes))
    states = [node.state() for node in nodes]
    numbers: dict[State, int] = {}
    ids = [numbers.setdefault(state, len(numbers)) for state in states]
    known: dict[tuple[int, int, int, int, str], dict[int, int | None]] = {}
    f = [fragmentation.of(state.model, state.cpu, state.rests) for state in states]
    arrived = used = 0
    for pod in queue:
        arrived += pod.request
        answers = known.setdefault((*pod.kind[:3], pod.memory, pod.spec), {})
        scores: dict[int, int] = {}
        for i, state_id in enumerate(ids):
            if state_id not in answers:
                answers[state_id] = score(pod, states[i]) if fits(pod, states[i]) else None
            if (value := answers[state_id]) is not None:
                scores[i] = value
        if scores:
            if policy == "Random":
                i = chance.choice(list(scores))
            else:
                if policy == "BestFit":
                    scores = normalised(scores)
                i = max(scores, key=lambda i: (scores[i], -i))
            node = nodes[i]
            if policy == "FGD":
                gpus = descent.gpus(pod, states[i])
            elif policy == "Random" and 0 < pod.milli < 1000:
                gpus = [chance.choice([g for g, rest in enumerate(node.rests) if rest >= pod.milli])]
            else:
                gpus = best_fit_gpus(pod, states[i].rests)
            for gpu in gpus:
                node.rests[gpu] -= pod.milli
            node.cpu -= pod.cpu
            node.memory -= pod.memory
            node.pods += 1
            if pod.gpus:
                node.tags = tuple(sorted({*node.tags, pod.tag}))
            used += pod.request
            states[i] = node.state()
            ids[i] = numbers.setdefault(states[i], len(numbers))
            f[i] = fragmentation.of(states[i].model, states[i].cpu, states[i].rests)
        run.placed.append((pod.name, nodes[i].name if scores else ""))
        run.lines.append(Line(arrived, used, sum(f)))
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--policy", choices=POLICIES, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--json", type=Path, required=True)
    chosen = parser.parse_args()
    run = simulate(read_nodes(chosen.nodes), read_pods(chosen.pods), chosen.policy, chosen.seed)
    chosen.json.write_text(json.dumps({**run.columns(), "placed": run.placed}))


if __name__ == "__main__":
    main()
