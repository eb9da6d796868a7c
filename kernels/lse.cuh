// Log-sum-exp bookkeeping in base 2, shared by the direct epilogue and the merge.
#pragma once
#include "ptx.cuh"

constexpr float headroom = 8.f;              // a lazy maximum may be exceeded by this much: 2^8 still fits F16
constexpr float lowest_maximum = -3.0e38f;   // below every score, yet finite: -inf - lowest_maximum is -inf, not NaN

// A softmax row: weights are 2^(score - maximum), `sum` of them. An empty row has sum 0 and maximum -inf.
struct RowTotal {
  float maximum, sum;
};

// Lets the sink (natural-log units) join the denominator. A sink of -inf changes nothing; +inf counts as the largest float.
CAKE_INLINE RowTotal add_sink(RowTotal row, float sink) {
  const float largest = 3.4e38f, sink2 = fminf(sink * log2_e, largest);
  if (!(sink2 > negative_infinity())) return row;
  if (!(row.sum > 0.f)) return {sink2, 1.f};
  const float maximum = fmaxf(row.maximum, sink2);
  return {maximum, row.sum * exp2_fast(row.maximum - maximum) + exp2_fast(sink2 - maximum)};
}
CAKE_INLINE float row_lse(RowTotal row) { return row.sum > 0.f ? row.maximum + log2_fast(row.sum) : negative_infinity(); }

// -inf stays -inf whatever the scale, so an empty row is never NaN.
CAKE_INLINE float scaled_lse(float lse, float lse_scale) { return lse > negative_infinity() ? lse * lse_scale : lse; }

// Over the four lanes that hold one row of a fragment.
CAKE_INLINE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
CAKE_INLINE float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
