"""Generated kernels of pointers, masks, loops and dots, for the passes of warp specialization."""
