"""How another compiler makes programs."""

if __name__ != "tileir.builder":
    raise ImportError("import tileir.builder, not the folder " + __name__)
