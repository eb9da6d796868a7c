// NVFP4 to F16, exactly: E2M1 codes and E4M3 scales in registers, F16 pairs out.
// The product of an E2M1 code and an E4M3 scale, times 2^-14, is a multiple of 2^-24 below 1: F16 holds it without loss.
#pragma once
#include "ptx.cuh"

constexpr float code_bias = 16384.f;   // 2^14: what a decoded value lacks; the query's factor and the output make up for it

// (select ? a : b), bit by bit, as the one LOP3 it is.
template <u32 select>
CAKE_INLINE u32 merge_bits(u32 a, u32 b) {
  u32 r; asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(r) : "n"(select), "r"(a), "r"(b)); return r;
}
CAKE_INLINE u32 multiply_f16(u32 a, u32 b) { u32 r; asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
CAKE_INLINE u32 multiply_bf16(u32 a, u32 b) { u32 r; asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
CAKE_INLINE u32 duplicate_low(u32 x) { return __byte_perm(x, x, 0x1010); }
CAKE_INLINE u32 duplicate_high(u32 x) { return __byte_perm(x, x, 0x3232); }

// Two E4M3 bytes (low 16 bits) as an F16 pair; sign and NaN survive.
CAKE_INLINE u32 decode_scales(u32 bytes) {
  u32 r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)bytes)); return r;
}

// Codes n0..n7 of a word (n0 in the low nibble) as pairs values[j] = (n_j, n_{j+4}) * scale * 2^-14.
// The sign bit of a code goes to bit 15 of an F16 and its other three bits to bits 11..9, which is value * 2^-14, subnormals included.
// Even and odd codes first become bytes [s....eem.] with rubbish in between; the last mask removes it.
CAKE_INLINE void decode_codes(u32 (&values)[4], u32 word, u32 scale) {
  constexpr u32 sign_bits = 0x80808080u, f16_bits = 0x8E008E00u;
  const u32 even = merge_bits<sign_bits>(word << 4, word << 1);
  const u32 odd = merge_bits<sign_bits>(word, word >> 3);
  values[0] = multiply_f16((even << 8) & f16_bits, scale);
  values[1] = multiply_f16((odd << 8) & f16_bits, scale);
  values[2] = multiply_f16(even & f16_bits, scale);
  values[3] = multiply_f16(odd & f16_bits, scale);
}
