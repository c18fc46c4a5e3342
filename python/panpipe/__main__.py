"""`python -m panpipe` is the command `panpipe` of this Python."""

import sys

from panpipe._program import main

sys.exit(main())
