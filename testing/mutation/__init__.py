"""Mutation testing: does the suite notice when a line of the compiler is wrong?

    python -m tileir.testing.mutation seeded
    python -m tileir.testing.mutation mutants simplifier verifier synchronisation
    python -m tileir.testing.mutation mutants elsewhere --sample 1500

A *change* replaces the text of one source file. `seeded` changes are classic bugs, planted by
hand; `mutants` are made from the syntax tree. Each is run in a forked process, in which the
changed module is imported in place of the real one, against the tests of its area. Results are
added to a file, and a change whose result is known is not run again unless its file has changed.
"""
