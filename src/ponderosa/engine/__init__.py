"""How it runs: the only place where halting and step meet."""

from ponderosa.engine.compact import compact
from ponderosa.engine.unroll import unroll

__all__ = ["compact", "unroll"]
