"""Facts about functions: `Function -> facts`, computed once per function object.

Each module is named after its function: `from tileir.analysis.cfg import cfg`. All of them take
verified functions, except `cfg` and `dominance`, on which the verifier itself stands.
"""
