"""Code for tiles: what moves, reduces, scans and accesses them."""
