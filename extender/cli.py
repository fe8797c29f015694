"""The command line: `waggle serve` in front of a cluster, `waggle demo` to see it work, `waggle cluster` to try things.

Exit status: 0 all well, 1 the demo did not end as it should, 2 the configuration or the command line cannot be used.
docs/exit-status.md has those of all commands.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender import DISTRIBUTION
from extender.operate.commands import add_commands
from extender.operate.conformance_commands import add_conformance_commands
from extender.operate.help import App
from extender.operate.new_algorithm_command import add_new_algorithm_command
from extender.operate.output import remark, say
from extender.operate.plan_commands import add_plan_commands
from extender.operate.record_commands import add_record_commands
from extender.operate.refusal import refuse
from extender.operate.replay_commands import add_replay_command
from extender.operate.simulate_commands import add_simulate_command
from extender.operate.snapshot_command import add_snapshot_command
from extender.operate.trace_commands import add_trace_commands

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from extender.server.process import ServerProcess
    from extender.settings import Settings


#: Exit status if standard output is a pipe that was closed: that of a program that SIGPIPE ends.
_CLOSED_PIPE = 141

app = App(
    name="waggle",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""
**Waggle** schedules pods: kube-scheduler asks it over HTTP, as a *scheduler extender*, which nodes a pod may go to
(filter, prioritize), whom to evict for it (preempt), and to bind it; a pluggable algorithm decides.

**See it work** on this machine, without a cluster:

    waggle demo

**Put it in front of a cluster**: write a configuration (docs/configuration.md has every field; an empty file works),
check it, serve it, and tell kube-scheduler about it (docs/quickstart.md):

    waggle check --config waggle.yaml
    waggle serve --config waggle.yaml
    waggle kube-scheduler-config --topology local    or second-scheduler
    waggle lint kube-scheduler-config.yaml           finds the traps in one
    waggle lint pool waggle.yaml --cluster           finds misconfigured pools
    waggle doctor --config waggle.yaml               checks everything
    waggle certs                                     for mutual TLS
    waggle hived init                                HiveD's cells, from nodes
    waggle hived diff OLD NEW --cluster              what a change would do

**See what would happen** before you apply something (docs/plan.md):

    waggle plan -f jobs.yaml                         what runs, waits, is evicted
    waggle plan --drain NODE                         what a change would do
    waggle plan -f jobs.yaml --out plan.json         keep it, and
    waggle apply plan.json                           create what was planned
    waggle snapshot > s.json.gz                      the cluster, to plan elsewhere

**Look into it** while it runs:

    waggle explain POD [--server URL]                why it waits, what helps
    waggle top [--server URL]                        what is taken, who waits
    waggle ui                                        the pages, in a browser
    curl localhost:9096/readyz                       ready? if not, why
    curl localhost:9096/v1/inspect/pods              all pods: state, reason
    curl localhost:9096/v1/explain/NAMESPACE/POD     all about one pod
    curl localhost:9096/metrics                      for Prometheus

**Look into what happened**, in a recording of `waggle serve --record` (docs/replay.md):

    waggle replay LOG                                is it what was decided?
    waggle record show LOG --pod NS/NAME             what happened to a pod
    waggle record cut LOG OUT --from A --to B        a part, for a bug report
    waggle replay LOG --at +10m [--serve]            a moment, also as pages
    waggle replay LOG --step                         decision by decision
    waggle replay LOG --algorithm fgd                what would have differed

**Write an algorithm of your own** (docs/plugin-authors.md):

    waggle new-algorithm FOLDER                      a package to begin with

**Claim warm pods** (docs/claims.md):

    waggle pools [NAMESPACE/POOL]                    what is idle, who waits
    waggle claim NAMESPACE/POOL -- COMMAND           a pod, while COMMAND runs
    waggle release ID                                ends a claim

**Virtual replicas on StatefulSets** (docs/vpods.md):

    waggle vpods show [NAMESPACE/SET]                what is placed, who waits
    waggle vpods plan NAMESPACE/SET --replicas 9     what a change would move
    waggle vpods explain NAMESPACE/SET VPOD          why there, what helps

**Write a scheduling algorithm** of your own (docs/plugin-authors.md):

    waggle conformance PACKAGE:PLUGIN                does it keep the contract?

Without `--server`, `explain`, `top`, `ui` and these go by kubectl to the Waggle in a cluster.
""",
)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration file (YAML). Without it: all defaults."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    config: ConfigOption = None,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Record every event into a FOLDER of our own, from which all decisions can be made again "
            "(docs/record.md).",
        ),
    ] = None,
    record_mib: Annotated[
        int,
        typer.Option(
            "--record-mib", metavar="N", min=1, max=1 << 20, help="MiB of that folder; the oldest events are deleted."
        ),
    ] = 512,
    url_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the URL to FILE once it is served: for scripts, with port 0."),
    ] = None,
) -> None:
    """Serve kube-scheduler's calls, claims and vpods, as the configuration says, against the API server that it names.

    Runs until SIGTERM or Ctrl-C, then finishes the bindings that are being written. Ready (see /readyz) as soon as all
    nodes and pods are known. SIGHUP takes changed settings of the algorithm into use at once, which otherwise happens
    when the file is next looked at. SIGUSR2 compares the cache with the API server and heals what differs. Logs go to
    standard error.
    """
    import gc
    import signal

    from extender.logs.lean import import_structlog

    gc.disable()  # to import and to start leaves no garbage behind, and looking for it takes a fifth of the time
    import_structlog()

    import structlog

    from algorithm.registry import AlgorithmError
    from extender.kube.client.access_review import Reviewer
    from extender.kube.client.kubeconfig import ConnectionSettingsError
    from extender.logs.setup import configure
    from extender.server.process import ServerProcess
    from extender.server.recording import RecordTo
    from extender.settings import SettingsError
    from extender.web.http.certificates import Certificates
    from extender.web.http.server import listening
    from extender.web.http.server import serve as serve_http
    from extender.web.lazy import LazyApp
    from extender.web.parts import Parts

    def pages() -> ASGIApp:
        from extender.web.app import create_app

        service = process.service
        app = create_app(
            service.runtime if service else None,
            settings,
            service.comparer if service else None,
            claims=process.claims,
            vpods=process.vpods,
            plans=process.plans,
            ordering=process.ordering,
            reviewer=reviewer,
            parts=parts,
        )
        app.openapi()  # made once, in 100 ms; otherwise the first wrong path would block kube-scheduler for that time
        return app

    def started(url: str) -> None:
        gc.enable()
        _announce(url, url_file, _served(settings))

    settings = _settings(config)
    configure(settings.log)
    with ExitStack() as opened:
        try:
            # First of all: a port that is taken must not be noticed by a server that has logged that it is ready.
            listeners = opened.enter_context(listening(settings.server))
            to = RecordTo(record, record_mib << 20) if record is not None else None
            process = ServerProcess(settings, config=config, record=to)
            opened.callback(_stop, process)
            certificates = Certificates(settings.server.tls, api_client=process.api.client_certificate)
            certificates.context()
        except (AlgorithmError, ConnectionSettingsError, SettingsError, OSError) as error:
            raise refuse(error) from error
        for each in settings.server.remarks():
            structlog.get_logger(__name__).warning(each)
        process.start()
        if (service := process.service) is not None:
            signal.signal(signal.SIGUSR2, lambda *_: service.comparer.request())
            if config is not None:
                signal.signal(signal.SIGHUP, lambda *_: service.reconfiguration.request())
        reviewer = Reviewer(process.api)
        parts = Parts.of(
            service.runtime if service else None,
            settings.server,
            certificates,
            process.claims,
            process.vpods,
            process.plans,
            process.ordering,
        )
        serve_http(
            LazyApp(parts, pages),
            settings,
            listeners=listeners,
            certificates=certificates,
            on_started=started,
            hosted=process,
        )


def _stop(process: ServerProcess) -> None:
    import structlog

    from extender.logs.setup import say_suppressed

    process.stop()
    say_suppressed()
    structlog.get_logger(__name__).info("stopped")


def _announce(url: str, url_file: Path | None, served: str) -> None:
    import structlog

    structlog.get_logger(__name__).info("serving", url=url, what=served)
    if url_file is not None:
        complete = url_file.with_name(f"{url_file.name}.new")
        complete.write_text(url, encoding="utf-8")
        complete.replace(url_file)


@app.command()
def check(config: ConfigOption = None) -> None:
    """Read a configuration and say what is wrong with it, without serving or sending anything.

    Files that it names are looked for: run it where Waggle will run.
    """
    from algorithm.registry import AlgorithmError, create
    from extender.kube.client.kubeconfig import ConnectionSettingsError, connect
    from extender.server.claims.score_plugins import configured_score
    from extender.settings import SettingsError, algorithm_settings
    from extender.web.http.certificates import Certificates

    settings = _settings(config)
    try:
        create(settings.algorithm.name, algorithm_settings(settings.algorithm))
        configured_score(settings.claims)
        _check_policies(settings)
        connect(settings.cluster).close()
        Certificates(settings.server.tls).check()
    except (AlgorithmError, ConnectionSettingsError, SettingsError) as error:
        raise refuse(error) from error
    open_to_all = settings.server.tls is None or settings.server.tls.client_ca_file is None
    open_to_all &= settings.extender.enabled or settings.claims.authorization == "none"
    if open_to_all and settings.server.host not in ("127.0.0.1", "::1", "localhost"):
        can = "bind pods" if settings.extender.enabled else "claim pods in any tenant's name"
        remark(
            f"server.host {settings.server.host} without server.tls.client_ca_file: anyone who reaches this port can "
            f"{can} (docs/security.md)",
            title="warning",
            style="yellow",
        )
    for each in settings.server.remarks():
        remark(each, title="warning", style="yellow")
    say(f"{config or 'the default configuration'} is fine: {_served(settings)}")


def _check_policies(settings: Settings) -> None:
    """Raise SettingsError, naming the field, if a set of vpods names a policy that cannot be used."""
    from algorithm.placements import registry
    from algorithm.placements.policy import PolicyError
    from extender.settings import SettingsError

    for index, each in enumerate(settings.vpods.sets):
        try:
            registry.create(each.policy, each.policy_settings)
        except PolicyError as error:
            raise SettingsError(f"vpods.sets.{index}.{error}") from error


def _served(settings: Settings) -> str:
    """What a server with this configuration serves, in a few words."""
    claims, vpods, parts = settings.claims, settings.vpods, []
    if settings.extender.enabled:
        parts.append(f"algorithm {settings.algorithm.name}")
    if claims.enabled:
        objects = " and of Pool objects" if claims.custom_resources else ""
        parts.append(f"claims of {len(claims.pools)} configured pool{'s'[: len(claims.pools) != 1]}{objects}")
    if vpods.enabled:
        objects = " and of VPodSet objects" if vpods.custom_resources else ""
        parts.append(f"vpods of {len(vpods.sets)} configured set{'s'[: len(vpods.sets) != 1]}{objects}")
    if settings.ordering.enabled:
        parts.append("start-up ordering")
    return ", ".join(parts)


@app.command()
def algorithms() -> None:
    """List the installed scheduling algorithms. The configuration names the one to use."""
    from algorithm.registry import available

    for name, point in available().items():
        say(f"{name:<16} {point.value}")


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed_version

    typer.echo(f"waggle {installed_version(DISTRIBUTION)}")


@app.command()
def demo(
    stay: Annotated[bool, typer.Option("--stay", help="Keep everything running at the end, to look at it.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where Waggle serves. 0: 9096 if it is free, else any.")
    ] = 0,
    workloads: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The workloads, instead of the demo's own.")
    ] = None,
    kube_scheduler: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A real kube-scheduler binary, instead of the stand-in.")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Any that is installed (`waggle algorithms`). hived: tenants, what is promised, who borrows it.",
        ),
    ] = "packing",
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The algorithm's settings, in its own format (YAML for most) or in a configuration of Waggle.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Record what Waggle decides, for `waggle replay` and `waggle record`."),
    ] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="Instead: pools of warm pods, handed out at 65 claims a second.")
    ] = False,
    vpods: Annotated[
        bool, typer.Option("--vpods", help="Instead: virtual replicas on the pods of a StatefulSet that grows.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what the servers log.")] = False,
) -> None:
    """A whole cluster on this machine: watch pods and gangs being placed, refused, preempted, and faults survived.

    Three processes: an API server stand-in with 32 GPU nodes, Waggle itself, and a kube-scheduler stand-in that makes
    the calls a real one makes. Nothing but loopback is used, nothing is left behind. Takes some 15 seconds.

    With `--claims`: two processes, and callers in this one: two pools of warm pods under load, a rush, faults of the
    API server, a crash of Waggle, and a check that each request had one end and no pod was given away twice. Takes some
    25 seconds.

    With `--vpods`: two processes: virtual replicas grow in small steps on the pods of a StatefulSet, a node is drained,
    the API server has faults, Waggle crashes, and the set shrinks; a check that no pod ever held too much, and none was
    taken away before it was empty. Takes some 25 seconds.
    """
    from extender.demo.run import Demo, DemoError, DemoInputError

    others = {"workloads": workloads, "kube-scheduler": kube_scheduler, "settings": settings, "record": record}
    refused = [f"--{name}" for name, value in others.items() if value is not None]
    refused += ["--algorithm"] if algorithm != "packing" else []
    if claims and vpods:
        raise refuse(ValueError("expected one of --claims and --vpods"))
    if refused and (claims or vpods):
        shows = "--claims has no use for {}: it shows pools of warm pods"
        if vpods:
            shows = "--vpods has no use for {}: it shows virtual replicas"
        raise refuse(ValueError(shows.format(", ".join(refused))))
    if record is not None:
        from extender.recording.files import check_own

        try:
            check_own(record)
        except OSError as error:
            raise refuse(error) from error
    try:
        if claims:
            from extender.demo.claims.play import ClaimsDemo

            ended_well = ClaimsDemo(port=port, verbose=verbose).run(stay=stay)
        elif vpods:
            from extender.demo.vpods.play import VPodsDemo

            ended_well = VPodsDemo(port=port, verbose=verbose).run(stay=stay)
        else:
            play = Demo(
                port=port,
                workloads=workloads,
                kube_scheduler=kube_scheduler,
                algorithm=algorithm,
                settings=settings,
                verbose=verbose,
                record=record,
            )
            ended_well = play.run(stay=stay)
    except DemoInputError as error:
        raise refuse(error) from error
    except DemoError as error:
        remark(str(error), title="demo", style="red")
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        remark("demo: stopped, nothing is left running")
        raise typer.Exit(130) from None
    raise typer.Exit(0 if ended_well else 1)


@app.command()
def cluster(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1. 0: any free one.")] = 0,
    nodes: Annotated[int, typer.Option(min=0, max=20_000, help="GPU nodes, as the demo's.")] = 32,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the kubeconfig. Default: a temporary folder.")
    ] = None,
) -> None:
    """An API server stand-in alone, in the foreground: point kubectl, kube-scheduler or `waggle serve` at it.

    It is not a Kubernetes: everything is in memory and lost at the end, nobody is asked who they are. Loopback only.
    docs/embedded-cluster.md says what it can do. Ends with Ctrl-C or SIGTERM.
    """
    from extender.demo.cluster import ClusterError, serve_cluster

    try:
        serve_cluster(port=port, node_count=nodes, kubeconfig=kubeconfig)
    except ClusterError as error:
        raise refuse(error) from error


add_commands(app)
add_plan_commands(app)
add_snapshot_command(app)
add_record_commands(app)
add_replay_command(app)
add_conformance_commands(app)
add_simulate_command(app)
add_new_algorithm_command(app)
add_trace_commands(app)


def _settings(config: Path | None) -> Settings:
    from extender.settings import Settings, SettingsError, load

    try:
        return load(config) if config else Settings()
    except SettingsError as error:
        raise refuse(error) from error


def main(prog_name: str | None = None) -> None:
    """The console script `waggle`."""
    try:
        app(prog_name=prog_name)
    except SystemExit as ended:
        # typer ends with 1 if standard output is a pipe that was closed (`| head`), which means something else here.
        if isinstance(ended.__context__, BrokenPipeError):
            raise SystemExit(_CLOSED_PIPE) from None
        raise


def kubectl_main() -> None:
    """The console script `kubectl-waggle`, which kubectl runs as `kubectl waggle`: the same commands."""
    main("kubectl waggle")


if __name__ == "__main__":
    main()
