"""flashgauge: SNIA PTS performance tests for solid state storage, on real and simulated drives."""

from importlib.metadata import version

__version__: str = version("flashgauge")
PTS_VERSION = "2.0.1"

__all__ = ["PTS_VERSION", "__version__"]
