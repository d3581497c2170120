"""Warp specialization: one kernel becomes two roles, warps that copy by TMA and warps that
multiply."""
