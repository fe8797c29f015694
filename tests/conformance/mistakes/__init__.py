"""Small mistakes in right plug-ins, each with the check of the conformance kit that must name it. See registry.py."""
