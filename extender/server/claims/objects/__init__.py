"""Serves the Pool and Claim objects of the API server: `claims.custom_resources`.

    pools.waggle.dev  --informer--> pools that are served beside the configured ones --> status of each Pool
    claims.waggle.dev --informer--> requests of the engine, renewals, releases       --> status of each Claim

Any number of replicas do this side by side. A claim's name on its pods is `c-UID-SERVER-TRY`: it has the object's UID,
and is different for each server that asks. The server that first writes its claim's name into the object's status has
the claim: the write has the object's resourceVersion as its precondition, so the API server decides between two. Pods
that other servers got are given back. Ranks (see `Members`) only keep the servers from asking at the same time.
"""
