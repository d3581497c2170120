"""The site: Sphinx reads the Markdown of this folder (`.ci/docs` builds it)."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))

import generate  # noqa: E402  (next to this file, which Sphinx does not put on the path)
import tir_lexer  # noqa: E402

project = "tileir"
author = "The tileir authors"
copyright = author
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_site", "_build"]
nitpicky = True

html_theme = "furo"
html_title = "tileir"
html_static_path: list[str] = []
html_show_sphinx = False
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "none"
# The grammar has comments with characters that Pygments' lexer of EBNF rejects.
suppress_warnings = ["misc.highlighting_failure"]

generate.write(HERE / "reference")


def setup(app):  # noqa: ANN001, ANN201  (Sphinx is no dependency of the checks of types)
    """Decision records are linked from the pages that they concern, and are in no menu."""

    def leave_out_of_menu(app, _):  # noqa: ANN001, ANN202
        name = app.env.current_document.docname
        if name.startswith("decisions/"):
            app.env.metadata[name]["orphan"] = True

    app.connect("doctree-read", leave_out_of_menu)
    # `.tir` text is fenced as llvm, so that hosts of repositories colour it.
    app.add_lexer("llvm", tir_lexer.TirLexer)
    return {"parallel_read_safe": True}
