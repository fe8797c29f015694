"""The web page `/ui`: the cluster as one picture, and the pods that wait.

    browser --- GET /ui, /ui/* ---------------> static files, compressed once (routes.py, static/)
            --- GET /v1/inspect/map?since= ---> what changed since then (increments.py), of
                                                 the algorithm's `cells`, or else nodes (nodes.py), and waiting.py

However many browsers look, the cluster is read at most once a second and for at most a twentieth of the time, piece by
piece, so that a verb never waits for a picture.
"""
