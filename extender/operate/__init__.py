"""What an operator does beside running Waggle: configure kube-scheduler, check that configuration, make certificates.

    scheduler_config    writes a KubeSchedulerConfiguration for each of three topologies
    lint, rules_*       find the traps in somebody's own
    certs               make a CA and the certificates of both sides
    commands            these as commands of `waggle`

Nothing here is needed by, or talks to, a running server.
"""
