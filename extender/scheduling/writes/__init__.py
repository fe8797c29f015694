"""What the engine of pods writes to the API server, and reads from it: one file for each kind of command.

A file has the command's dataclass, the event that reports its outcome, and a `KIND` that turns one into the other
(`extender.core.commands`). `extender.scheduling.commands` registers the kinds.
"""
