"""`python -m panpipe` is the command `panpipe` of this Python; `python -m panpipe notebooks [FOLDER]` copies the notebooks out of the package."""

import sys

from panpipe._program import main, notebooks

sys.exit(notebooks(sys.argv[2:]) if sys.argv[1:2] == ["notebooks"] else main())
