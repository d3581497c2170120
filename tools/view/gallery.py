"""Write the pictures in `docs/pictures`: `python -m tileir.tools.view.gallery`, from a checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tileir.tools.files import read_module, write_file
from tileir.tools.view import PICTURES, draw_picture
from tileir.tools.view.input import Subject

KERNELS = ("softmax", "matmul")
"""Examples that are drawn."""


def gallery(examples: Path) -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of every picture of every kernel."""
    for kernel in KERNELS:
        for picture in PICTURES:
            yield drawing(examples, kernel, picture)


def drawing(examples: Path, kernel: str, picture: str) -> tuple[str, str]:
    """The file name and the text of one picture."""
    module = read_module(str(examples / f"{kernel}.tir"))
    kind = "html" if picture == "passes" else "svg"
    return f"{kernel}-{picture}.{kind}", draw_picture(picture, Subject(module))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all pictures to the folder on the command line, or to `docs/pictures`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    folder = Path(words[0] if words else "docs/pictures")
    for name, text in gallery(Path("examples")):
        write_file(str(folder / name), text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
