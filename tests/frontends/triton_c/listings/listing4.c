// Listing 4 of MAPL 2019, in a kernel that loads a, b, c and stores what the listing computes.
kernel void broadcasting(int* pa, int* pb, int* pc, int* out1, int* out2, int* out3)
{
  int a[16] = *(pa + (0 ... 16));
  int b[32, 16] = *(pb + (0 ... 32)[:, newaxis] * 16 + (0 ... 16));
  int c[16, 1] = *(pc + (0 ... 16)[:, newaxis]);
  // a is first reshaped to [1, 16]
  // and then broadcast to [32, 16]
  int x_1[32, 16] = a[newaxis, :] + b;
  // Same as above but implicitly
  int x_2[32, 16] = a + b;
  // a is first reshaped to [1, 16]
  // a is broadcast to [16, 16]
  // c is broadcast to [16, 16]
  int y[16, 16] = a + c;
  *(out1 + (0 ... 32)[:, newaxis] * 16 + (0 ... 16)) = x_1;
  *(out2 + (0 ... 32)[:, newaxis] * 16 + (0 ... 16)) = x_2;
  *(out3 + (0 ... 16)[:, newaxis] * 16 + (0 ... 16)) = y;
}
