"""Generated kernels of pointers, masks, loops and dots, for the passes that make roles of them."""
