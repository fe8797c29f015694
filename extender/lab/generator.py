"""Makes workloads from published statistics of real clusters, so that a simulation needs no trace.

A recipe says how large jobs are, how long they run, and which of these numbers were found in which published file or
program (`Recipe.published`, `Recipe.figures`). Everything else is an estimate, named in `Recipe.estimated`; both are in
the workload's remarks. Jobs arrive as a Poisson process whose rate may
follow the hour of the day (thinning: Lewis and Shedler, 1979), at the rate at which they need a given share of the
cluster's GPUs.

The same recipe, options and seed give the same workload in every process and on every version of Python: only
`Random.random` is drawn from, and times are rounded to milliseconds. Each kind of draw has a stream of its own, so
that more nodes or failures do not change how jobs look.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import ceil, exp, log, pi, sin
from random import Random
from statistics import NormalDist
from typing import Generic, NamedTuple, TypeVar

import msgspec

from extender.lab.workload import CPU, GPU, MEMORY, Job, MachineNode, NodeFailure, Workload

T = TypeVar("T")
DAY = 86_400.0
#: Jobs, nodes and failures of one workload.
MOST_JOBS, MOST_NODES, MOST_FAILURES = 1_000_000, 20_000, 100_000
#: A generated node, and what a job has of it for each of its GPUs.
_CORES, _MEMORY = 96, 768 << 30
_CORES_PER_GPU, _MEMORY_PER_GPU = 8, 64 << 30
#: Quantiles by which means are summed up.
_QUANTILES = 4096


class GeneratorError(ValueError):
    """The options cannot be combined. The message names the option and what was expected."""


class Size(NamedTuple):
    """What a job of a size asks for: GPUs of one pod in thousandths, and pods. `share` of all jobs have it."""

    share: float
    gpu_milli: int
    pods: int = 1


class LogUniform(NamedTuple):
    """Seconds between `low` and `high`, whose logarithm is uniform."""

    low: float
    high: float

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of jobs does not exceed."""
        return float(self.low * (self.high / self.low) ** share)


class LogNormal(NamedTuple):
    """Seconds with this median, whose logarithm is normal with this deviation; longer ones are cut to `most`."""

    median: float
    sigma: float
    most: float

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of jobs does not exceed."""
        return float(min(self.most, self.median * exp(self.sigma * NormalDist().inv_cdf(share))))


class Figure(NamedTuple):
    """A published statistic that a large draw must have, within a share `within` of it."""

    #: One of the statistics that the test of figures knows.
    name: str
    value: float
    source: str
    within: float


class Recipe(NamedTuple):
    """Sizes and durations of jobs: durations with the share of jobs that each is for."""

    title: str
    sizes: tuple[Size, ...]
    durations: tuple[tuple[float, LogUniform | LogNormal], ...]
    #: Where the numbers come from, and what is not from there. A sentence each.
    published: str
    estimated: str
    figures: tuple[Figure, ...] = ()


def _of_one_machine(shares: Mapping[int, float], machine: int = 8) -> tuple[Size, ...]:
    """Sizes in GPUs; what is larger than a machine has a pod on each of several."""
    return tuple(Size(share, min(gpus, machine) * 1000, max(1, ceil(gpus / machine))) for gpus, share in shares.items())


#: The sources at hand when these numbers were written down. `_GAVEL` has the functions `_generate_duration` and
#: `_generate_scale_factor`, "the Philly distribution"; `_HELIOS` the row `total`, computed from all four clusters.
_GAVEL = "github.com/stanford-futuredata/gavel, scheduler/utils.py"
_HELIOS = (
    "github.com/S-Lab-System-Group/HeliosArtifact, analysis/1_compare with Philly trace/helios_cluster_summary.csv"
)

RECIPES: Mapping[str, Recipe] = {
    "philly": Recipe(
        title="Microsoft's Philly clusters, 2017",
        sizes=_of_one_machine({1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}),
        durations=((0.8, LogUniform(60 * 10**1.5, 60 * 10**3)), (0.2, LogUniform(60 * 10**3, 60 * 10**4))),
        published="Sizes and durations: the fit of Narayanan et al. (Gavel, OSDI 2020) to the trace of Jeon et al. "
        f"(USENIX ATC 2019): 10^x minutes, x uniform in 1.5 to 3 for 80 % and in 3 to 4 for the others ({_GAVEL}).",
        estimated="Cpu and memory, which go with the GPUs.",
        figures=(
            Figure("share of jobs with 1 GPU", 0.70, _GAVEL, 0.01),
            Figure("share of jobs with 2 GPUs", 0.10, _GAVEL, 0.03),
            Figure("share of jobs with 4 GPUs", 0.15, _GAVEL, 0.03),
            Figure("share of jobs with 8 GPUs", 0.05, _GAVEL, 0.05),
            Figure("share of jobs within 1,000 minutes", 0.80, _GAVEL, 0.01),
            Figure("median seconds", 60 * 10 ** (1.5 + 1.5 * 0.5 / 0.8), _GAVEL, 0.03),
        ),
    ),
    "helios": Recipe(
        title="SenseTime's Helios, 2020",
        sizes=_of_one_machine({1: 0.58, 2: 0.10, 4: 0.11, 8: 0.165, 16: 0.025, 32: 0.015, 64: 0.005}),
        # With this deviation and cut off at 50 days, the mean is the published one.
        durations=((1.0, LogNormal(206, 2.670941, 50 * DAY)),),
        published="Of 1,580,464 GPU jobs (Hu et al., SC 2021): median 206 s and mean 6,651.7 s; median 1 GPU and mean "
        f"3.716 GPUs ({_HELIOS}).",
        estimated="That durations are log-normal and end at 50 days; the shares of the sizes, chosen to have this mean "
        "and median, up to 64 GPUs.",
        figures=(
            Figure("median seconds", 206.0, _HELIOS, 0.03),
            Figure("mean seconds", 6651.681, _HELIOS, 0.1),
            Figure("median GPUs", 1.0, _HELIOS, 0.0),
            Figure("mean GPUs", 3.716, _HELIOS, 0.03),
        ),
    ),
    "pai": Recipe(
        title="Alibaba's PAI, 2020",
        sizes=(
            *(Size(0.93 * share, milli) for share, milli in ((0.25, 250), (0.35, 500), (0.30, 1000), (0.10, 2000))),
            *(
                Size(0.07 * share, 500, pods)
                for share, pods in ((0.45, 8), (0.25, 16), (0.15, 32), (0.10, 64), (0.05, 128))
            ),
        ),
        durations=((1.0, LogNormal(23 * 60, log(4.5 * 60 / 23) / NormalDist().inv_cdf(0.9), 20 * DAY)),),
        published="That tasks ask for parts of GPUs, and that many of them are gangs "
        "(github.com/alibaba/clusterdata, cluster-trace-gpu-v2020/README.md).",
        estimated="All numbers, from memory of Weng et al. (NSDI 2022), which was not at hand: instances run for 23 "
        "minutes (median) and 4.5 hours (90th percentile), log-normal; 7 % of the tasks are gangs, of 8 to 128.",
    ),
    "llm": Recipe(
        title="Training of large models beside small jobs",
        sizes=_of_one_machine({1: 0.50, 2: 0.08, 4: 0.08, 8: 0.24, 16: 0.04, 32: 0.03, 64: 0.02, 128: 0.01}),
        durations=((0.9, LogNormal(30 * 60, 1.8, 14 * DAY)), (0.1, LogUniform(DAY, 14 * DAY))),
        published="No numbers. The shape is the one that Kokolis et al. (HPCA 2025) describe: most jobs are "
        "small, most GPU time goes to few large ones.",
        estimated="All shares and durations.",
    ),
}

#: Estimated: spot jobs of Alibaba's trace of 2026 (cluster-trace-v2026-spot-gpu), 51,154 of 466,867. Public readers of
#: the file give the same number of jobs; the number of spot jobs was not found again.
SPOT_SHARE = 51_154 / 466_867
#: Published failures of nodes with 8 GPUs, as days between two failures of one node.
#: Kokolis et al. (HPCA 2025), RSC-1: 6.50 failures in 1,000 node-days. Llama 3 (Meta, 2024): 419 unexpected
#: interruptions in 54 days on 16,384 GPUs, that is 2,048 nodes.
MTBF_DAYS: Mapping[str, float] = {"rsc-1": 1000 / 6.5, "llama-3": 2048 * 54 / 419}
#: Mean hours until a node that failed is back.
REPAIR_HOURS = 6.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is made: nodes with 8 GPUs, jobs for so many days that need `load` of all GPU time."""

    nodes: int = 100
    gpus_per_node: int = 8
    days: float = 7.0
    load: float = 0.8
    tenants: int = 5
    #: How much the rate swings with the hour, 0 (not at all) to 1 (at night nobody comes).
    daily: float = 0.5
    #: Share of jobs with priority 0; the others have 1.
    spot: float = SPOT_SHARE
    #: Days between two failures of one node; None: nodes do not fail. Hours until it is back.
    mtbf_days: float | None = None
    repair_hours: float = REPAIR_HOURS
    seed: int = 1


def generate(name: str, options: Options | None = None) -> Workload:
    """Return the workload of a recipe. Raises GeneratorError."""
    options = options or Options()
    recipe = RECIPES.get(name)
    if recipe is None:
        raise GeneratorError(f"expected one of the recipes {', '.join(RECIPES)}, got {name}")
    _check(options)
    fitting = tuple(size for size in recipe.sizes if _fits(size, options))
    if not fitting:
        raise GeneratorError(f"nodes: no job of {name} fits {options.nodes} x {options.gpus_per_node} GPUs")
    between = _seconds_between(recipe._replace(sizes=fitting), options)
    expected = options.days * DAY / between
    if expected > MOST_JOBS:
        raise GeneratorError(f"days, load: expected at most {MOST_JOBS:,} jobs, got some {expected:,.0f}")
    jobs = tuple(_jobs(recipe._replace(sizes=fitting), options, between))
    nodes = tuple(_nodes(options))
    left = len(recipe.sizes) - len(fitting)
    remarks = [
        f"Generated: {recipe.title}; seed {options.seed}.",
        f"Published: {recipe.published}",
        f"Estimated: {recipe.estimated}",
    ]
    remarks.append(
        f"Arrivals are Poisson and swing by {options.daily:.0%} with the hour; {options.spot:.0%} of the jobs have low "
        "priority; tenants have as many jobs as Zipf's law says."
    )
    if left:
        sizes = "1 size of jobs needs" if left == 1 else f"{left} sizes of jobs need"
        remarks.append(f"Left out: {sizes} more than half of this cluster.")
    return Workload(name, jobs, nodes, tuple(_failures(nodes, options)), tuple(remarks))


def _check(options: Options) -> None:
    bounds = {
        "nodes": (options.nodes, 1, MOST_NODES),
        "gpus_per_node": (options.gpus_per_node, 1, 64),
        "days": (options.days, 0.01, 3650),
        "load": (options.load, 0.01, 10),
        "tenants": (options.tenants, 1, 1000),
        "daily": (options.daily, 0, 1),
        "spot": (options.spot, 0, 1),
        "mtbf_days": (1.0 if options.mtbf_days is None else options.mtbf_days, 0.01, 1e6),
        "repair_hours": (options.repair_hours, 0.001, 1e5),
    }
    for name, (value, least, most) in bounds.items():
        if not least <= value <= most:
            raise GeneratorError(f"{name}: expected {least:g} to {most:g}, got {value:g}")


def _fits(size: Size, options: Options) -> bool:
    """Whether a node can hold a pod of it, and half of the cluster the job."""
    per_node = options.gpus_per_node * 1000 // size.gpu_milli
    return per_node > 0 and size.pods <= max(1, per_node * options.nodes // 2)


def _seconds_between(recipe: Recipe, options: Options) -> float:
    """Mean seconds between two arrivals for the load."""
    shares = sum(size.share for size in recipe.sizes)
    gpus = sum(size.share * size.gpu_milli * size.pods for size in recipe.sizes) / shares / 1000
    seconds = sum(
        share * sum(law.quantile((k + 0.5) / _QUANTILES) for k in range(_QUANTILES)) / _QUANTILES
        for share, law in recipe.durations
    )
    return gpus * seconds / (options.load * options.nodes * options.gpus_per_node)


def _jobs(recipe: Recipe, options: Options, between: float) -> Iterator[Job]:
    looks = _random(options, "looks")
    sizes = _Choice(recipe.sizes, [size.share for size in recipe.sizes])
    durations = _Choice([law for _, law in recipe.durations], [share for share, _ in recipe.durations])
    # Tenants as Zipf's law has them: the second has half as many jobs as the first.
    tenants = _Choice(
        [f"tenant-{number + 1}" for number in range(options.tenants)],
        [1 / (number + 1) for number in range(options.tenants)],
    )
    requests: dict[int, Mapping[str, int]] = {}
    for number, arrival in enumerate(_arrivals(options, between)):
        size = sizes.draw(looks)
        seconds = durations.draw(looks).quantile(min(max(looks.random(), 1e-12), 1 - 1e-12))
        yield Job(
            name=f"{_job_name(size)}-{number:06}",
            arrival=round(arrival, 3),
            requests=requests.setdefault(size.gpu_milli, _requests(size.gpu_milli)),
            seconds=max(1.0, round(seconds, 3)),
            pods=size.pods,
            gang=size.pods > 1,
            priority=0 if looks.random() < options.spot else 1,
            tenant=tenants.draw(looks),
        )


def _job_name(size: Size) -> str:
    """The beginning of a job's name, which tells its size: gpu4x8 is eight pods with four GPUs each."""
    gpus = f"gpu{size.gpu_milli // 1000}" if size.gpu_milli >= 1000 else f"milli{size.gpu_milli}"
    return f"{gpus}x{size.pods}" if size.pods > 1 else gpus


def _requests(gpu_milli: int) -> dict[str, int]:
    return {
        GPU: gpu_milli,
        CPU: max(1000, _CORES_PER_GPU * gpu_milli),
        MEMORY: max(1 << 30, _MEMORY_PER_GPU * gpu_milli // 1000),
    }


def _arrivals(options: Options, between: float) -> Iterator[float]:
    """Times of arrivals; the fewest come at four in the morning."""
    draw = _random(options, "arrivals").random
    now, until, most = 0.0, options.days * DAY, 1 + options.daily
    while True:
        now -= between / most * log(1 - draw())
        if now >= until:
            return
        rate = 1 - options.daily * sin(2 * pi * (now / DAY + 1 / 12))
        if draw() * most < rate:
            yield now


def _nodes(options: Options) -> Iterator[MachineNode]:
    width = len(str(options.nodes - 1))
    capacity = {GPU: options.gpus_per_node * 1000, CPU: _CORES * 1000, MEMORY: _MEMORY}
    for number in range(options.nodes):
        yield MachineNode(f"node-{number:0{width}}", capacity)


def _failures(nodes: tuple[MachineNode, ...], options: Options) -> list[NodeFailure]:
    """Failures in the order of their times: exponential between two of one node, and until it is back."""
    if options.mtbf_days is None:
        return []
    found: list[NodeFailure] = []
    for node in nodes:
        draw = _random(options, f"failures/{node.name}").random
        now = 0.0
        while (now := now - options.mtbf_days * DAY * log(1 - draw())) < options.days * DAY:
            back = now - options.repair_hours * 3600 * log(1 - draw())
            found.append(NodeFailure(node.name, round(now, 3), round(max(back, now + 1), 3)))
            now = back
            if len(found) > MOST_FAILURES:
                raise GeneratorError(f"mtbf_days: expected at most {MOST_FAILURES:,} failures; nodes fail too often")
    return sorted(found, key=lambda failure: (failure.at, failure.node))


class _Choice(Generic[T]):
    """Draws one of several with given weights."""

    def __init__(self, values: Sequence[T], weights: Sequence[float]) -> None:
        self._values, self._sums = values, list(accumulate(weights))

    def draw(self, random: Random) -> T:
        place = bisect(self._sums, random.random() * self._sums[-1])
        return self._values[min(place, len(self._values) - 1)]


def _random(options: Options, stream: str) -> Random:
    return Random(f"{options.seed}/{stream}")  # noqa: S311 - jobs, no secrets
