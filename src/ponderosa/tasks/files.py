"""What readers of original files share: the right file, whole, or an error that names it."""

import gzip
import zlib
from pathlib import Path


def one(folder: Path, *patterns: str) -> Path:
    """The file of a folder that has one of these names."""
    found = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
    if not found:
        raise FileNotFoundError(f"{folder} has no file {' or '.join(patterns)}: --data_dir must name the data set's folder")
    return found[0]


def read_bytes(path: Path) -> bytes:
    """A file's content, unpacked where its name ends in .gz."""
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}): get it again") from error
