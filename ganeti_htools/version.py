"""The version, as installed."""

from importlib.metadata import version

VERSION = version("htoolsd")
