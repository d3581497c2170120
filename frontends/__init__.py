"""Small languages built on `tileir.builder`, one package each."""

if __name__ != "tileir.frontends":
    raise ImportError("import tileir.frontends, not the folder " + __name__)
