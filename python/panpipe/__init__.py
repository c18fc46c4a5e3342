"""Panpipe's programs as a Python package: the command `panpipe` is what it brings. There is no Python interface yet."""

from importlib.metadata import version as _version

__version__ = _version("panpipe")
__all__ = ["__version__"]
