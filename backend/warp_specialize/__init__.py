"""One kernel as two roles: warps that copy by tensor maps, and warps that multiply."""
