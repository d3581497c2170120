"""The `.tir` text: reader, printer and legacy readers."""

if __name__ != "tileir.textual":
    raise ImportError("import tileir.textual, not the folder " + __name__)
