"""Build hook: compile colret's kernels where there is a C compiler, and do without them elsewhere."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("colret/kernels/kernels.c")
LIBRARY = Path("colret/kernels/_kernels.so")
FLAGS = ("-std=c99", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wno-psabi")


class KernelsHook(BuildHookInterface):
    """Adds the compiled kernels to a wheel, or lays them beside their source for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say in one line why not if that fails: colret works without."""
        root = Path(self.root)
        library = root / LIBRARY if version == "editable" else Path(self.directory) / LIBRARY.name
        library.parent.mkdir(parents=True, exist_ok=True)
        library.unlink(missing_ok=True)
        if problem := compile_kernels(root / SOURCE, library):
            self.app.display_warning(f"colret is installed without its compiled kernels, slower: {problem}")
        elif version != "editable":
            build_data["force_include"][str(library)] = LIBRARY.as_posix()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing but the wheel where it was built."""
        (Path(self.directory) / LIBRARY.name).unlink(missing_ok=True)


def compile_kernels(source: Path, library: Path) -> str:
    """Compile ``source`` into ``library``; return what went wrong, or nothing."""
    if os.environ.get("COLRET_NO_KERNELS"):
        return "COLRET_NO_KERNELS is set"
    if not (compiler := _compiler()):
        return "there is no C compiler"
    draft = library.with_suffix(f".{os.getpid()}")
    command = [*compiler, *FLAGS, *_system_flags(), str(source), "-o", str(draft)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        if done.returncode == 0:
            draft.replace(library)  # whoever has the old library loaded keeps it
            return ""
        return (done.stderr.strip().splitlines() or [f"{compiler[0]} failed"])[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        draft.unlink(missing_ok=True)


def _compiler() -> list[str]:
    """Return the command of $CC or the first compiler found that knows GCC's vector types."""
    if named := os.environ.get("CC"):
        return shlex.split(named)
    names = ("gcc", "clang") if sys.platform == "win32" else ("cc", "gcc", "clang")
    return next(([name] for name in names if shutil.which(name)), [])


def _system_flags() -> list[str]:
    if sys.platform == "darwin":
        return ["-arch", platform.machine(), "-mmacosx-version-min=11.0"]
    return []


def _platform_tag() -> str:
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
