"""The commands of the engine of vpods: one file for each kind, as `extender.core.commands` describes.

WritePlacements  PATCH  vpod/status  where the vreplicas of a vpod are, if it is still as it was seen
ReadVPod         GET    vpod         reads a vpod back, when no watch has shown what became of a write
ScaleWorkload    PATCH  scale        sets the replicas of a StatefulSet (`extender.core.scale`)
"""
