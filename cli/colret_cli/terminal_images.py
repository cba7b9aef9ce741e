"""Images in a terminal: the protocols of kitty and of iTerm2, and sixels."""

from __future__ import annotations

import base64
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from colret_cli.output import is_terminal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Protocol = Literal["kitty", "iterm", "sixel"]

_CHUNK: Final = 4096  # characters of base64 in one escape sequence of kitty's
_SIXEL_TERMINALS: Final = ("foot", "mlterm", "yaft", "contour")  # what TERM begins with
_BAND: Final = 6  # rows of pixels that one sixel holds


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """Return how the terminal that ``environment`` describes shows images; None if nobody knows that it does.

    Inside tmux and screen none: they swallow what they do not know.
    """
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith(("screen", "tmux")):
        return None
    if "KITTY_WINDOW_ID" in environment or term in ("xterm-kitty", "xterm-ghostty"):
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    if "sixel" in term or term.startswith(_SIXEL_TERMINALS):
        return "sixel"
    return None


def escape_sequence(image: Image, protocol: Protocol) -> str:
    """Return what shows ``image``, in RGB, when it is written to a terminal."""
    if protocol == "sixel":
        return sixel(image)
    png = io.BytesIO()
    image.save(png, "PNG")
    data = base64.standard_b64encode(png.getvalue()).decode("ascii")
    if protocol == "iterm":
        return f"\x1b]1337;File=inline=1;size={len(png.getvalue())}:{data}\x07"
    return "".join(_kitty(data))


def show_image(image: Image, name: str) -> Path | None:
    """Show ``image``, in RGB, where the terminal can; else write it to a temporary file called like ``name``.

    Returns:
        The file; None if the image was shown.
    """
    from colret.overlay import write_png

    protocol = protocol_of(os.environ) if is_terminal(sys.stdout) else None
    if protocol is not None:
        click.echo(escape_sequence(image, protocol))
        return None
    handle, path = tempfile.mkstemp(".png", f"{file_name(name)}-")
    os.close(handle)
    write_png(image, Path(path))
    return Path(path)


def file_name(text: str) -> str:
    """Return ``text`` as a name that every file system takes."""
    return re.sub(r"\W+", "-", text)[-50:]


def sixel(image: Image) -> str:
    """Return ``image``, reduced to 256 colours, as sixels: DEC's graphics of the VT340."""
    import numpy as np
    import PIL.Image

    reduced = image.convert("RGB").quantize(256, PIL.Image.Quantize.MEDIANCUT)
    colors = np.asarray(reduced.getpalette() or [], np.int64).reshape(-1, 3)
    percent = (colors * 100 + 127) // 255
    parts = [f'\x1bP9;1q"1;1;{reduced.width};{reduced.height}']
    parts += [f"#{i};2;{red};{green};{blue}" for i, (red, green, blue) in enumerate(percent.tolist())]
    pixels = np.asarray(reduced)
    parts += ["-".join("$".join(_band(pixels[y : y + _BAND])) for y in range(0, len(pixels), _BAND)), "\x1b\\"]
    return "".join(parts)


def _kitty(data: str) -> Iterator[str]:
    """Yield the escape sequences that send a PNG and show it, asking for no answer (q=2)."""
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    for i, chunk in enumerate(chunks):
        keys = "a=T,f=100,q=2," if i == 0 else ""
        yield f"\x1b_G{keys}m={int(i < len(chunks) - 1)};{chunk}\x1b\\"


def _band(rows: NDArray[np.uint8]) -> Iterator[str]:
    """Yield, for each colour in at most six rows of pixels, its sixels: bit i of a column stands for row i."""
    import numpy as np

    weights = 1 << np.arange(len(rows))
    for color in np.unique(rows).tolist():
        columns = weights @ (rows == color)  # (width,) 0 to 63
        starts = np.flatnonzero(np.diff(columns, prepend=-1))
        lengths = np.diff(starts, append=len(columns))
        runs = zip(columns[starts].tolist(), lengths.tolist(), strict=True)
        yield f"#{color}" + "".join(_run(chr(63 + value), length) for value, length in runs)


def _run(sixel: str, length: int) -> str:
    return f"!{length}{sixel}" if length > 3 else sixel * length
