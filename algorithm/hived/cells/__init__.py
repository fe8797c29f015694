"""Cells: the hardware's forest and the tenants' forests, their configuration, and the accounts of each chain."""
