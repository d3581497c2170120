"""TMA: the accesses that can use tensor maps, and how the host computes the maps."""
