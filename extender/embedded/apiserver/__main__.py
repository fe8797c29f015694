"""`python -m extender.embedded.apiserver`: see `sidecar.py`."""

import sys

from extender.embedded.apiserver.sidecar import main

if __name__ == "__main__":
    sys.exit(main())
