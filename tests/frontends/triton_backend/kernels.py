"""Kernels written for Triton, and the text it makes of them where it is installed."""

from pathlib import Path

ADD = """\
module {
  tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {
    %c64 = arith.constant 64 : i32 loc(#loc1)
    %p = tt.get_program_id x : i32 loc(#loc1)
    %b = arith.muli %p, %c64 : i32 loc(#loc1)
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32> loc(#loc1)
    %s = tt.splat %b : i32 -> tensor<64xi32> loc(#loc1)
    %i = arith.addi %s, %r : tensor<64xi32> loc(#loc1)
    %k = tt.splat %n : i32 -> tensor<64xi32> loc(#loc1)
    %m = arith.cmpi slt, %i, %k : tensor<64xi32> loc(#loc1)
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc2)
    %xp = tt.addptr %xs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc2)
    %v = tt.load %xp, %m : tensor<64x!tt.ptr<f32>> loc(#loc2)
    %w = arith.addf %v, %v : tensor<64xf32> loc(#loc2)
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc3)
    %yp = tt.addptr %ys, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc3)
    tt.store %yp, %w, %m : tensor<64x!tt.ptr<f32>> loc(#loc3)
    tt.return loc(#loc3)
  } loc(#loc1)
} loc(#loc1)
#loc1 = loc("user.py":3:5)
#loc2 = loc("user.py":4:9)
#loc3 = loc("user.py":5:7)
"""
"""y[i] = 2 x[i] for i < n, 64 elements an instance."""

RACE = """\
module {
  tt.func public @race(%x: !tt.ptr<i32>) attributes {noinline = false} {
    %p = tt.get_program_id x : i32 loc(#loc1)
    tt.store %x, %p : !tt.ptr<i32> loc(#loc2)
    tt.return loc(#loc2)
  } loc(#loc1)
} loc(#loc1)
#loc1 = loc("user.py":13:5)
#loc2 = loc("user.py":14:3)
"""

TOTAL_OF_MASKED = ADD.replace("@add", "@sum").replace(
    "    tt.store %yp, %w, %m : tensor<64x!tt.ptr<f32>> loc(#loc3)\n",
    """\
    %t = "tt.reduce"(%w) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %c: f32):
      %d = arith.addf %a, %c : f32 loc(#loc3)
      tt.reduce.return %d : f32 loc(#loc3)
    }) : (tensor<64xf32>) -> f32 loc(#loc3)
    tt.store %y, %t : !tt.ptr<f32> loc(#loc3)
""",
)
"""The sum of a row of which lanes are masked off, with no value for these."""

FOREIGN = ADD.replace("arith.addf %v, %v", "foreign.op %v, %v")
"""Has an unknown op."""

OF_A_LIBRARY = ADD.replace(
    "arith.addf %v, %v : tensor<64xf32>",
    'tt.extern_elementwise %v {libname = "mine", libpath = "", pure = true, symbol = "twice"}'
    " : (tensor<64xf32>) -> tensor<64xf32>",
)
"""Calls a function of a library."""

DESCRIBED = """\
module {
  tt.func public @first(%x: !tt.tensordesc<16x32xf16>, %x_0: i32, %x_1: i32, %y: !tt.ptr<f16>) {
    %c0 = arith.constant 0 : i32
    %v = tt.descriptor_load %x[%c0, %c0] : !tt.tensordesc<16x32xf16> -> tensor<16x32xf16>
    %p = tt.splat %y : !tt.ptr<f16> -> tensor<16x32x!tt.ptr<f16>>
    tt.return
  }
}
"""
"""Takes a descriptor that the host makes, without its strides: no release of Triton does so."""

TABLE = """\
module {
  tt.func public @table(%t: !tt.ptr<i64>, %y: !tt.ptr<f32>) {
    %a = tt.load %t : !tt.ptr<i64>
    %p = tt.int_to_ptr %a : i64 -> !tt.ptr<f32>
    %v = tt.load %p : !tt.ptr<f32>
    tt.store %y, %v : !tt.ptr<f32>
    tt.return
  }
}
"""
"""y[0] = *(float *)t[0]: the address of a tensor that is not an argument."""

PRINT = """\
module {
  tt.func public @print(%x: !tt.ptr<f32>) {
    %v = tt.load %x : !tt.ptr<f32>
    tt.print " v: " {hex = false, isSigned = array<i32: 0>} : %v : f32
    tt.return
  }
}
"""
"""Prints x[0]."""

MATMUL = Path(__file__).with_name("matmul.ttir").read_text()
"""c = a b in f16 by tiles of 128 x 256 x 64, masked at every edge: parameters a, b, c, m, n, k."""

DESCRIBED_MATMUL = Path(__file__).with_name("matmul_descriptors.ttir").read_text()
"""c = a b in f16 by tiles of 128 x 256 x 64: parameters a, b, c (descriptors), m, n, k."""

BLOCK_OF_8 = """\
module {
  tt.func public @block(%d: !tt.tensordesc<tensor<4x8xf32>>, %d_0: i32, %d_1: i32, %d_2: i64, %d_3: i64, %y: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %v = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<4x8xf32>> -> tensor<4x8xf32>
    %f = tt.reshape %v : tensor<4x8xf32> -> tensor<32xf32>
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %s = tt.splat %y : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %p = tt.addptr %s, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %p, %f : tensor<32x!tt.ptr<f32>>
    tt.return
  }
}
"""  # noqa: E501
"""y is the first 4 x 8 block of the host's descriptor d."""
