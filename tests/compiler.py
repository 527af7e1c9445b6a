"""Tests of C code: left out where it cannot or must not be compiled, so that code which does not compile fails."""

import os
import shutil

import pytest

COMPILER = shutil.which(os.environ.get("CC", "cc")) and os.environ.get("PONDEROSA_NATIVE") != "0"
native = pytest.mark.skipif(not COMPILER, reason="there is no C compiler, or it is not wanted")
