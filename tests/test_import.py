"""What `import ponderosa` costs: torch at the first use of a name, and never more."""

import subprocess
import sys

import ponderosa

HEAVY = ["lightning_fabric", "jsonargparse", "matplotlib", "tqdm", "safetensors", "yaml", "tensorboard"]


def loaded(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `code`."""
    code += "\nimport sys; print(*{name.split('.')[0] for name in sys.modules})"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_the_package_alone_loads_nothing() -> None:
    assert not loaded("import ponderosa") & {"torch", *HEAVY}


def test_using_every_name_loads_torch_and_no_more() -> None:
    """Torch itself brings tqdm where it finds it, so what it loads alone is not held against us."""
    modules = loaded("from ponderosa import *; Ponder(GRUStep(2, 2), ACT(), max_steps=2)")
    assert "torch" in modules
    assert not (modules - loaded("import torch")) & set(HEAVY)


def test_every_public_name_is_there() -> None:
    assert all(hasattr(ponderosa, name) for name in ponderosa.__all__)
    assert set(ponderosa.__all__) <= set(dir(ponderosa))
    assert not hasattr(ponderosa, "Pondering")


def test_functional_names_are_the_mechanisms_own() -> None:
    assert all(callable(getattr(ponderosa.functional, name)) for name in ponderosa.functional.__all__)
