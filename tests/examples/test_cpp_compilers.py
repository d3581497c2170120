"""Which C++ compiler builds what a process with torch loads."""

import shutil

import pytest


@pytest.fixture
def compilers(benchmarks):
    return benchmarks("cpp_compilers")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_a_compiler_that_links_a_static_library_of_c_plus_plus_is_passed_over(compilers, tmp_path):
    static = tmp_path / "g++"
    static.write_text('#!/bin/sh\nexec g++ "$@" -static-libstdc++\n')
    static.chmod(0o755)
    choose = compilers.compiler_with_shared_library
    assert choose([str(static)]) is None
    assert choose([str(static), "g++"]) == "g++"


def test_a_command_that_is_no_compiler_is_passed_over(compilers):
    assert compilers.compiler_with_shared_library(["no-such-command", "false", ""]) is None
