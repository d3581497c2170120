"""The cache: one compilation for all who ask, whole entries or none, whoever is killed."""

import os
import random
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import attrs
import pytest

from tests.sizes import for_each
from tileir.backend import assembler
from tileir.backend.compile import compile as compile_module
from tileir.backend.options import Options
from tileir.backend.runtime import cache as cache_module
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disk_store import DiskStore, cache_folder
from tileir.errors import CompileError, Diagnostic, UnsupportedError
from tileir.testing.cache_stress import StressSettings, kernel, run
from tileir.textual import parse, print_module

TARGET = "sm_80"


@pytest.fixture
def caches(tmp_path):
    """A function that makes caches of one folder, and the list of what they compiled."""
    compiled = []

    def make(module, target, options, kernel):
        compiled.append((target, options))
        return compile_module(module, target, options, kernel)

    return lambda: Cache(DiskStore(tmp_path), make), compiled


def test_what_was_compiled_is_not_recompiled(caches):
    new, compiled = caches
    cache, module = new(), kernel(3)
    first = cache.compile(module, TARGET)
    assert cache.compile(module, TARGET) is first
    assert cache.compile(kernel(3), TARGET) is first
    second = new().compile(kernel(3), TARGET)
    assert len(compiled) == 1
    assert second.cubin == first.cubin and second.metadata == first.metadata
    assert print_module(second.tir_at("layouts")) == print_module(first.tir_at("layouts"))


def test_everything_that_code_depends_on_is_in_the_key(caches):
    new, compiled = caches
    cache = new()
    for number in (1, 2):
        for target in ("sm_80", "sm_90"):
            for warps in (1, 2):
                cache.compile(kernel(number), target, {"num_warps": warps})
    assert len(compiled) == 8 and len(list(cache.store.keys())) == 8


TWO_KERNELS = """tir 1.0
define kernel void @f(i32 %n) {
entry:
  call @both
  ret
}

define kernel void @g(i32 %n) {
entry:
  call @both
  ret
}

define void @both() {
entry:
  ret
}
"""
OTHER_OPTIONS = {
    "num_warps": 2, "opt_level": 1, "num_stages": 2, "ring_stages": 2, "prefetch_operands": False,
    "stage_halo": False, "max_registers": 64, "warp_specialize": False, "persistent": False,
    "pingpong": False, "ordered_softmax": False, "non_tma_alignments": (16,), "split_k": 2,
    "multicast": 2, "wait_timeout": True, "line_info": True, "permit": ("extern",),
    "libraries": (".version 8.0",), "limits": {"seconds": 7}, "non_tma_variants": False,
}  # fmt: skip


def test_each_input_of_a_compilation_has_a_key_of_its_own():
    """Whether the module is the same object or an equal one."""
    assert OTHER_OPTIONS.keys() == {field.name for field in attrs.fields(Options)}
    usual = ("sm_80", Options(), "f")
    inputs = [usual, ("sm_90", *usual[1:]), (*usual[:2], "g"), (*usual[:2], None)]
    inputs += [("sm_80", Options.of({n: v}), "f") for n, v in OTHER_OPTIONS.items()]
    module, cache = parse(TWO_KERNELS), Cache(None)
    keys = [cache.key(module, *each) for each in inputs]
    assert len(set(keys)) == len(keys)
    assert [cache.key(parse(TWO_KERNELS), *each) for each in inputs] == keys
    assert [cache.key(module, *each) for each in inputs] == keys
    other = parse(TWO_KERNELS.replace("i32 %n", "i64 %n"))
    assert not {cache.key(other, *each) for each in inputs} & set(keys)


@pytest.mark.parametrize("before", ["define void @both", "define kernel void @f"])
def test_lines_are_in_the_key_where_machine_code_has_lines(before):
    """Those of called functions too, which may be inlined."""
    modules = [parse(TWO_KERNELS), parse(TWO_KERNELS.replace(before, f"\n{before}"))]
    for options, same in ((Options(), True), (Options(line_info=True), False)):
        keys = {Cache(None).key(module, TARGET, options, "f") for module in modules}
        assert (len(keys) == 1) is same


def test_another_compiler_does_not_take_it(caches, monkeypatch):
    new, compiled = caches
    new().compile(kernel(3), TARGET)
    monkeypatch.setattr(cache_module, "compiler_version", lambda: "another")
    new().compile(kernel(3), TARGET)
    assert len(compiled) == 2


@pytest.mark.parametrize("damage", [b"", b"tileir-entry 1\n", None])
def test_a_damaged_entry_is_recompiled(caches, damage):
    new, compiled = caches
    first, (key,) = new().compile(kernel(3), TARGET), new().store.keys()
    path = new().store.folder / key[:2] / f"{key[2:]}.entry"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage is None else damage)
    assert new().compile(kernel(3), TARGET).cubin == first.cubin
    assert len(compiled) == 2
    new().compile(kernel(3), TARGET)
    assert len(compiled) == 2


def test_threads_wait_for_the_one_that_compiles(caches):
    new, compiled = caches
    cache, module = new(), kernel(5)
    with ThreadPoolExecutor(8) as pool:
        kernels = [
            f.result() for f in [pool.submit(cache.compile, module, TARGET) for _ in "12345678"]
        ]
    assert len(compiled) == 1 and all(f is kernels[0] for f in kernels)


def test_an_error_is_everyones_and_is_not_kept(caches):
    new, compiled = caches
    cache = new()
    for _ in range(2):
        with pytest.raises(UnsupportedError):
            cache.compile(kernel(3), "sm_20")
    assert len(compiled) == 2 and not list(cache.store.keys())


def test_compiling_goes_on_in_the_background(caches):
    new, compiled = caches
    cache = new()
    futures = [cache.submit(kernel(n), TARGET) for n in (1, 2, 1)]
    one, two, cached = (f.result(600) for f in futures)
    assert one is cached and one.cubin != two.cubin and len(compiled) == 2
    with pytest.raises(UnsupportedError):
        cache.submit(kernel(1), "sm_20").result(600)


def test_as_many_compile_concurrently_as_there_are_processors(monkeypatch):
    cache_module._threads.cache_clear()
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    together = threading.Barrier(3, timeout=600)
    with cache_module._threads() as pool:
        results = [pool.submit(together.wait) for _ in range(3)]
        assert sorted(f.result() for f in results) == [0, 1, 2]
    cache_module._threads.cache_clear()


def test_compiling_goes_on_in_other_processes(tmp_path):
    cache = Cache(DiskStore(tmp_path / "kernels"))
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        values = cache.submit(kernel(7), TARGET, Options(num_warps=2), executor=pool).result(600)
        with pytest.raises(UnsupportedError):
            cache.submit(kernel(7), "sm_20", executor=pool).result(600)
    assert values.cubin == compile_module(kernel(7), TARGET, Options(num_warps=2)).cubin
    assert cache.compile(kernel(7), TARGET, Options(num_warps=2)) is values


def test_a_folder_that_cannot_be_written_to_costs_the_cache_only(tmp_path):
    (tmp_path / "file").write_text("")
    store = DiskStore(tmp_path / "file" / "kernels")
    assert Cache(store).compile(kernel(3), TARGET).cubin
    with pytest.raises(CompileError, match="TIR0717"):
        store.put("00ff", b"")
    with pytest.raises(CompileError, match="TIR0717"), store.lock("00ff"):
        pass


def test_without_a_folder_the_process_has_a_cache_of_its_own():
    cache = Cache(None)
    module = kernel(3)
    assert cache.compile(module, TARGET) is cache.compile(module, TARGET)


def test_one_at_a_time_holds_a_key(tmp_path):
    store, inside, most = DiskStore(tmp_path), [], []

    def enter():
        for _ in range(20):
            with store.lock("00ff"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) == 80
    assert not list(tmp_path.rglob("*.lock"))


def test_folders_are_made_where_they_are_needed(tmp_path):
    with DiskStore(tmp_path / "locks" / "below").lock("00ff"):
        assert len(list(tmp_path.rglob("*.lock"))) == 1
    store = DiskStore(tmp_path / "entries" / "below")
    assert store.get("00ff") is None and not list(store.keys())
    store.put("00ff", b"data")
    store.put("00ff", b"other")
    assert store.get("00ff") == b"other" and list(store.keys()) == ["00ff"]


def test_trimming_removes_what_was_not_used_for_longest(tmp_path):
    store = DiskStore(tmp_path)
    for index, key in enumerate(("00aa", "00bb", "00cc")):
        store.put(key, bytes(1000))
        path = tmp_path / "00" / f"{key[2:]}.entry"
        os.utime(path, (index, index))
    (tmp_path / "00" / ".unfinished-x").write_bytes(bytes(10))
    os.utime(tmp_path / "00" / ".unfinished-x", (0, 0))
    store.get("00aa")
    removed = store.trim(2200)
    assert sorted(store.keys()) == ["00aa", "00cc"]
    assert removed > 1000 and not list(tmp_path.rglob(".unfinished*"))


@for_each("seed", range(8))
def test_trimming_keeps_all_that_fit_from_the_one_used_last(seed):
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        store, sizes = DiskStore(Path(folder)), dict[str, int]()
        keys = [f"{r.randrange(256):02x}{index}" for index in range(8)]
        for key in keys:
            store.put(key, bytes(r.randrange(400)))
        r.shuffle(keys)
        for time_used, key in enumerate(keys):
            path = store.folder / key[:2] / f"{key[2:]}.entry"
            os.utime(path, (time_used, time_used))
            sizes[key] = path.stat().st_size
        limit = r.choice([0, sum(sizes.values()), r.randrange(sum(sizes.values()))])
        while sum(sizes.values()) > limit:
            del sizes[next(iter(sizes))]
        total = sum(path.stat().st_size for path in store.folder.rglob("*.entry"))
        assert store.trim(limit) == total - sum(sizes.values())
        assert set(store.keys()) == sizes.keys()


def test_the_folder_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEIR_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    assert Cache.usual().store.folder == tmp_path / "here" / "kernels"
    monkeypatch.setenv("TILEIR_CACHE", "off")
    assert Cache.usual().store is None
    monkeypatch.delenv("TILEIR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tileir"


def test_a_user_without_a_cache_folder_is_told_to_name_a_folder(monkeypatch):
    for name in ("TILEIR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(CompileError, match="set TILEIR_CACHE to a folder") as caught:
        cache_folder()
    assert caught.value.code == "TIR0717"


@pytest.mark.slow
def test_processes_that_are_killed_do_no_harm(tmp_path):
    report = run(StressSettings(tmp_path, kernels=12, processes=4, kills=6, seed=1, target=TARGET))
    assert not report.wrong, report.wrong
    assert report.killed == 6 and report.checked >= 4 * 12


def test_without_an_assembler_the_driver_gets_the_text(caches, monkeypatch):
    def missing(*_):
        raise CompileError(Diagnostic("TIR0704", "no nvJitLink"))

    monkeypatch.setattr(assembler, "assemble", missing)
    new, _ = caches
    assert ".entry k(" in new().compile(kernel(3), TARGET).ptx
    assert not list(new().store.keys())


def test_an_entry_that_is_altered_anywhere_is_none(tmp_path):
    """A byte that differs, or is missing or added, in any place of the file."""
    store = DiskStore(tmp_path)
    store.put("abcdef", b"the content of an entry")
    (path,) = tmp_path.glob("??/*.entry")
    whole = path.read_bytes()
    assert store.get("abcdef") == b"the content of an entry"
    for place in range(len(whole)):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        for data in (changed, whole[:place], whole[:place] + whole[place + 1 :]):
            path.write_bytes(data)
            assert store.get("abcdef") is None, place
    path.write_bytes(whole + b"x")
    assert store.get("abcdef") is None


@pytest.mark.parametrize("own", [None, True, False])
@pytest.mark.parametrize("stated", [None, True, False])
def test_a_call_states_isolation_over_its_cache(own, stated):
    calls = []

    def make(*arguments, **words):
        calls.append(words)
        return compile_module(*arguments)

    cache = Cache(None, make, isolate=own)
    cache.compile(kernel(3), TARGET, isolate=stated)
    chosen = own if stated is None else stated
    assert calls == [{} if chosen is None else {"isolate": chosen}]
