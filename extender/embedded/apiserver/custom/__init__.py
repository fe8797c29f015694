"""Custom resources: a CustomResourceDefinition adds rows to the resource table, and its schema rules what they hold.

    definition -> definitions (may it be?) -> registry (rows of the table, collections of the store, conditions)
    object     -> objects -> schema: prune unknown fields, fill in defaults, validate

Each promise is held against the answers of a real API server (tests/golden/custom_resources.py). What there is not:
x-kubernetes-validations (CEL), conversion webhooks, and schemas with allOf, anyOf, oneOf or not; a definition that has
them is refused, since to accept and to ignore them would be worse.
"""
