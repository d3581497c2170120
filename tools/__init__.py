"""The commands `tileir` and `tileir-opt`."""

if __name__ != "tileir.tools":
    raise ImportError("import tileir.tools, not the folder " + __name__)
