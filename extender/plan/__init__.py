"""What would happen if this were applied, and why: the scheduler that runs live, on a copy, to the end, with no clock.

    World + Changes --> run --> Plan --> table, JSON, YAML, Markdown, SVG, DOT

Pure: files, the API server and sockets are in `operate`, `server` and `web`.
"""
