"""Program generators and executors for tests of passes and backends."""

if __name__ != "tileir.testing":
    raise ImportError("import tileir.testing, not the folder " + __name__)
