"""TMA: which accesses can use tensor maps, and how the host builds the maps."""
