"""Who holds what: layouts of memory accesses, dots and everything between."""
