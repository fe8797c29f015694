"""The HTTP layer: kube-scheduler's four verbs, and the pages that people and probes read.

Promises: bad input gets an answer that names the field and changes nothing; a verb never answers 5xx for what a caller
sent; no answer contains a null where kube-scheduler would crash on it. This package decides nothing: it reaches the
engine only through `extender.server.runtime`.
"""
