"""What a figure was measured on."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def environment(*packages: str) -> dict[str, Any]:
    """Versions of ponderosa, torch and `packages`, the machine and the date."""
    return {
        **{name: version(name) for name in ("ponderosa", "torch", *packages)}, "python": platform.python_version(),
        "machine": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }  # fmt: skip


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()
