"""The instruction set, one file per family. `tileir.op.lookup` loads families on first use."""
