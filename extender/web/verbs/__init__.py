"""The four verbs over HTTP: bodies decoded, the engine asked, answers encoded."""
