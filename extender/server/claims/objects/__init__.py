"""Serves the Pool and Claim objects of the API server: `claims.custom_resources`.

    pools.waggle.dev  --informer--> pools that are served beside the configured ones --> status of each Pool
    claims.waggle.dev --informer--> requests of the engine, renewals, releases       --> status of each Claim

Any number of replicas do this side by side. A claim's name on its pods is `c-UID-SERVER-TRY`: made of the object's UID,
and different for each server that asks. The first server that writes its claim's name into the object's status has it:
that write names the version of the object that it follows from, so the API server decides between two. What the others
got is given back. Members (rendezvous hashing, as for pods) only keep them from asking at the same time.
"""
