"""E2B's API as a face of claims: a sandbox is a claim of one pod, a template is a pool. docs/e2b.md."""
