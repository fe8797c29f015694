"""What a plan reads: manifests as objects, objects as pods and nodes, and the cluster as a `World`.

    texts of files --documents--> objects --expanding--> pods, nodes
    lists of the API server --worlds--> World <--snapshots--> bytes

Pure: the texts, the API server and the files are read in `operate`, or are the body of a request. Everything here is
bounded, since strangers write manifests and snapshots.
"""
