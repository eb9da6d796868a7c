// The block-scaled FP4 matrix product: D (16 x 8) += A (16 x 64, E2M1) * B (64 x 8, E2M1), one UE4M3 scale per 16 of the 64.
//
// Registers of lane l, g = l / 4, t = l % 4. a[r]: row g + 8 * (r % 2), columns 8t + 32 * (r / 2) .. + 7, lowest nibble first. b[r]: column g, rows
// 8t + 32r .. + 7. Scales, one byte per block of 16: scale_a of row g in lane t = 0, of row g + 8 in lane t = 1; scale_b of column g in lane t = 0.
#pragma once
#include "ptx.cuh"

#if __CUDA_ARCH__ >= 1200 && __CUDA_ARCH__ < 1300   // sm_120a and sm_121a; programs are always built for the "a" targets

CAKE_INLINE void mma_block_scaled(float (&d)[4], const u32 (&a)[4], u32 scale_a, u32 b0, u32 b1, u32 scale_b) {
  asm("{ .reg .b16 zero; mov.b16 zero, 0;\n"
      "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0, 0}, {%11}, {0, 0}; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b));
}

#else   // emulation by warp shuffles, with the same registers: for verification, not for speed

CAKE_INLINE float decode_e2m1(u32 code) {
  const u32 doubled = (code & 7u) < 4u ? (code & 7u) : (code & 1u ? 6u : 4u) << ((code >> 1 & 1u));
  return (code & 8u ? -0.5f : 0.5f) * (float)doubled;
}
CAKE_INLINE float decode_ue4m3(u32 byte) {
  u32 pair; float value;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((u16)(byte & 0x7fu)));
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(value) : "r"(pair));
  return value;
}

__device__ __noinline__ float dot_codes(u32 a, u32 b) {
  float sum = 0.f;
#pragma unroll 1
  for (int i = 0; i < 8; i++) sum += decode_e2m1(a >> (4 * i)) * decode_e2m1(b >> (4 * i));
  return sum;
}

CAKE_INLINE void mma_block_scaled(float (&d)[4], const u32 (&a)[4], u32 scale_a, u32 b0, u32 b1, u32 scale_b) {
  const int lane = threadIdx.x % 32, g = lane >> 2, t = lane & 3;
#pragma unroll 1
  for (int i = 0; i < 8; i++) {   // eight k at a time: lane k of the quads, register half
    const int k = i & 3, half = i >> 2, block = (k >> 1) + 2 * half;
    const u32 low = half ? a[2] : a[0], high = half ? a[3] : a[1], b = half ? b1 : b0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const int row_lane = c >> 1, column = 2 * t + (c & 1);
      const u32 from_low = __shfl_sync(0xffffffffu, low, 4 * g + k), from_high = __shfl_sync(0xffffffffu, high, 4 * g + k);
      const u32 other = __shfl_sync(0xffffffffu, b, 4 * column + k);
      const u32 sa = __shfl_sync(0xffffffffu, scale_a, 4 * g + row_lane), sb = __shfl_sync(0xffffffffu, scale_b, 4 * column);
      d[c] += dot_codes(row_lane ? from_high : from_low, other) * decode_ue4m3(sa >> (8 * block)) * decode_ue4m3(sb >> (8 * block));
    }
  }
}
#endif
