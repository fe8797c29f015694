"""What an operator does beside running Waggle: configure kube-scheduler, check that configuration, make certificates.

    scheduler_config    writes a KubeSchedulerConfiguration for each of three topologies
    lint, rules_*       find the traps in somebody's own
    certs               make a CA and the certificates of both sides
    reach               the way to a Waggle in a cluster, through kubectl
    ui                  its pages, for a browser on this machine
    commands            these as commands of `waggle`

Nothing here is needed by a running server; only `reach` talks to one.
"""
