"""The four verbs over HTTP: decode the body, ask the engine, encode the answer."""
