"""Mutation testing: measures whether the tests fail if a line of the compiler is wrong.

    python -m tileir.testing.mutation seeded
    python -m tileir.testing.mutation mutants simplifier verifier synchronisation
    python -m tileir.testing.mutation mutants elsewhere --sample 1500

A *change* replaces the text of one source file. `seeded` changes are classic bugs that were planted
by hand; `mutants` are derived from the syntax tree. For each change, a forked process imports the
changed module in place of the original and runs the tests of its area. Results are added to a file,
and a change whose result is known is not run again unless its file has changed.
"""
