"""The lab: what an algorithm would do with a trace, in virtual time and without a cluster."""
