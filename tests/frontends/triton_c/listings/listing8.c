// Listing 8 of MAPL 2019: a shifted convolution. The loop outside of the kernel runs on the host.
// Repaired: its statement ends in a semicolon.
const tunable int TM = {16, 32, 64, 128};
const tunable int TN = {16, 32, 64, 128};
const tunable int TK = {8};

__constant__ int* delta = alloc_const int[512];

for(int c = 0; c < C; c++)
    delta[c] = c*H*W + shift_h[c]*W + shift_w[c];

void shift_conv(restrict read_only float *a,
               restrict read_only float *b, float *c,
               int M, int N, int K){
    int rxa[TM] = get_global_range[TM](0);
    int ryb[TN] = get_global_range[TN](1);
    int rka[TK] = 0 ... TK;
    int rkb[TK] = 0 ... TK;
    float C[TM, TN] = 0;
    float* pxa[TM, TK] = a + rxa[:, newaxis];
    float* pb[TN, TK] = b + ryb[:, newaxis] + rkb*N;
    __constant__ int* pd[TK] = delta + rka;
    for(int k = K; k > 0; k = k - TK){
        int delta[TK] = *pd;
        float *pa[TM, TK] = pxa + delta[newaxis, :];
        float a[TM, TK] = *pa;
        float b[TN, TK] = *pb;
        C = dot(a, trans(b), C);
        pb = pb + TK*N;
        pd = pd + TK;
    }
    int rxc[TM] = get_global_range[TM](0);
    int ryc[TN] = get_global_range[TN](1);
    float* pc[TM, TN] = c + rxc[:, newaxis] + ryc*M;
    bool checkc0[TM] = rxc < M;
    bool checkc1[TN] = ryc < N;
    bool checkc[TM, TN] = checkc0[:, newaxis] && checkc1;
    @checkc *pc = C;
}
