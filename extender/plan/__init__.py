"""Plans: what would happen if manifests were applied, and why. Runs the live scheduler on a copy, without a clock.

    World + Changes --> run --> Plan --> table, JSON, YAML, Markdown, SVG, DOT

Pure: files, the API server and sockets are in `operate`, `server` and `web`.
"""
