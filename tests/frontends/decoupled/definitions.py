"""Kernel definitions of the thesis, and those of its kernels that it does not print.

Listing 4.4 reads `reshape(dvsr[m], m, l)` in the text at hand, where the last letter is a one.
"""

from __future__ import annotations

ADD = """
# Declarations
Func add_out; # Tensor function to be defined.
In A, B; # Input tensors.
SIn alpha; # Input scalar.
Var x, y; # Dimensions labels.

# Algorithm
add_out[x, y] = alpha * (A[x, y] + B[x, y]);

# Schedule
add_out.block(x:1, y:256);
add_out.tensorize(y:64);
add_out.compile();
"""

SOFTMAX = """
Func softmax_out, sum_exp_A, exp_A;
In   A;
Var  x;
RVar y;

exp_A[x, y]      = exp(A[x, y]);
sum_exp_A[x]     = rsum(exp_A[x, y], y);
softmax_out[x, y] = exp_A[x, y] / reshape(sum_exp_A[x], x, 1);

softmax_out.tensorize(x:4, y:128);
softmax_out.compile();
"""

RMS_NORM = """
Func rms_norm_out;
In X, W;
SIn Eps, Offset;
Var x, y;
RVar k;

rms_norm_out[x, y] = X[x, y] *
                      rsqrt(rsum(pow(X[x, k], 2), k) / len(y) + Eps) *
                      (Offset + W[y]);

rms_norm_out.compile();
"""

RELU = """
Func relu_out;
In A;
Var x, y;

relu_out[x, y] = maximum(0, A[x, y]);

relu_out.compile();
"""

SWISH = """
Func swish_out, tmp;
In A;
SIn beta;
Var x, y;

tmp[x, y] = sigmoid(beta * A[x, y]);
swish_out[x, y] = A[x, y] * tmp[x, y];

swish_out.compile();
"""

ROW_TOTALS = """
Func sum_out;
In A;
Var x;
RVar k;

sum_out[x] = rsum(A[x, k], k);

sum_out.compile();
"""

GEGLU = """
Func geglu;
In A, B;
Var x, y;

geglu[x, y] = 0.5 * A[x, y] * (1 + tanh(0.7978845608028654 *
        (A[x, y] + 0.044715 * pow(A[x, y], 3)))) * B[x, y];

geglu.block(x:1);
geglu.tensorize(x:0);
geglu.block(y:512);
geglu.tensorize(y:0);
geglu.map(x, y);
geglu.num_warps(32);
geglu.compile();
"""

FUSED_SOFTMAX = """
Func _softmax, _sum;
In A;
Var x;
RVar y;

_sum[x]          = rsum(exp(A[x, y]), y);
_softmax[x, y] = exp(A[x, y]) / reshape(_sum[x], x, 1);

_softmax.block(x:4);
_softmax.tensorize(y:512);
_softmax.tensorize(x:0);
_softmax.num_warps(32);
_sum.fuse_at(_softmax, x);
_softmax.compile_to_kernel();
"""

TWO_MATMULS = """
Func _2mm, mm;
In A, B, C;
Var m, n;
RVar k, l;

mm[m, l] = rdot(A[m, k], B[k, l], k);
_2mm[m, n] = rdot(mm[m, l], C[l, n], l);

_2mm.block(m:16);
_2mm.tensorize(m:16);
_2mm.tensorize(n:64);
_2mm.tensorize(k:32);
_2mm.tensorize(l:0);
_2mm.num_stages(4);
_2mm.num_warps(4);
mm.fuse_at(_2mm, m);
_2mm.compile_to_kernel();
"""

ATTENTION = """
Func attention, mm, e, sm, dvsr;
In   A, B, C;
Var  m, n;
RVar k, l;

mm[m, l]      = rdot(A[m, k], B[k, l], k) / sqrt(len(l));
e[m, l]       = exp(mm[m, l]);
dvsr[m]       = rsum(e[m, l], l);
sm[m, l]      = e[m, l] / reshape(dvsr[m], m, 1);
attention[m, n] = rdot(sm[m, l], C[l, n], l);

attention.tensorize(m:16);
attention.block(m:16);
attention.tensorize(n:64);
attention.tensorize(k:16);
attention.tensorize(l:0);
attention.num_stages(8);
attention.num_warps(8);
mm.fuse_at(e, l);
dvsr.fuse_at(sm, m);
sm.fuse_at(attention, m);
e.fuse_at(attention, m);
attention.compile();
"""

DYT = """
Func dyt;
In X, W, V;
SIn alpha;
Var x, y;
dyt[x, y] = tanh(alpha * X[x, y]) * W[y] + V[y];
dyt.compile();
"""

SWIGLU = """
Func swiglu;
In A, B;
Var x, y;
swiglu[x, y] = A[x, y] * sigmoid(A[x, y]) * B[x, y];
swiglu.compile();
"""

TVD = """
Func tvd;
In P, Q;
Var x;
RVar y;
tvd[x] = 0.5 * rsum(abs(P[x, y] - Q[x, y]), y);
tvd.compile();
"""

KL = """
Func kl;
In P, Q;
Var x;
RVar y;
kl[x] = rsum(where(Q[x, y] > 0, Q[x, y] * (log(Q[x, y]) - P[x, y]), 0), y);
kl.compile();
"""

MATMUL = """
Func matmul;
In A, B;
Var m, n;
RVar k;
matmul[m, n] = rdot(A[m, k], B[k, n], k);
matmul.compile();
"""

MMSIGMOID = """
Func mmsigmoid;
In A, B;
Var m, n;
RVar k;
mmsigmoid[m, n] = sigmoid(rdot(A[m, k], B[k, n], k));
mmsigmoid.compile();
"""

INNER_2MM = """
Func _2mm;
In A, B, C;
Var m, n;
RVar k, l;
_2mm[m, n] = rdot(rdot(A[m, k], B[k, l], k), C[l, n], l);
_2mm.compile();
"""

FLASH = """
Func attention, s, top, p, total;
In   Q, K, V;
SIn  scale;
Var  h, m, n;
RVar k, l;

s[h, m, l] = rdot(Q[h, m, k], K[h, k, l], k) * scale;
top[h, m] = rmax(s[h, m, l], l);
p[h, m, l] = exp(s[h, m, l] - reshape(top[h, m], h, m, 1));
total[h, m] = rsum(p[h, m, l], l);
attention[h, m, n] = rdot(p[h, m, l], V[h, l, n], l) / reshape(total[h, m], h, m, 1);

attention.compile();
"""

FLASH_SCHEDULE = """
attention.block(h:1, m:16);
attention.tensorize(m:0, n:0, k:0, l:32);
s.fuse_at(p, l);
top.fuse_at(attention, m);
p.fuse_at(attention, l);
total.fuse_at(attention, m);
attention.online(l);
"""
