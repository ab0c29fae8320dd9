"""``python -m kvquarry_server`` is the ``kvquarry`` command."""

import sys

from kvquarry_server.cli import main

if __name__ == "__main__":
    sys.exit(main())
