"""How long kernels take, estimated without running them."""
