"""The commands of the engine of start-up ordering: one file for each kind, as `extender.core.commands` describes.

RemoveGate   PATCH  pod   removes the scheduling gate of a pod whose dependencies are met
MarkMet      PATCH  pod   records which dependencies are met, while others are not
ReadPod      GET    pod   reads a pod back, when no watch has shown what became of a write
"""
