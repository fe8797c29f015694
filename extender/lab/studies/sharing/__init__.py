"""What a guarantee of cells is worth, compared with a quota of devices: docs/hived-sharing.md."""
