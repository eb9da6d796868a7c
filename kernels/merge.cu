// Merge of the splits. One CTA of 64 threads: one (token, head) row, eight dims per thread.
//
// The partial rows of the first batch are requested before the weights are known, so the two L2 trips overlap. Any number of splits:
// weights are computed 32 at a time, one per lane. The sink joins here.
#include "args.cuh"
#include "lse.cuh"

constexpr int row_threads = 64, batch = 8, dims_per_row = 512;

CAKE_INLINE uint4 load_partial(const u16* p) {
  uint4 r; asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p)); return r;
}
// Floats as integers of the same order, and back: there is a reduction over a warp for these.
CAKE_INLINE int ordered(int x) { return x ^ (x >> 31 & 0x7fffffff); }
CAKE_INLINE float warp_max(float x) { return __int_as_float(ordered(__reduce_max_sync(0xffffffffu, ordered(__float_as_int(x))))); }
CAKE_INLINE float load_lse(const float* lse, int split, int num_splits) { return split < num_splits ? __ldcg(lse + split) : negative_infinity(); }

CAKE_INLINE void add_partial(float (&out)[8], uint4 v, float w) {
  out[0] += w * bf16_low(v.x); out[1] += w * bf16_high(v.x); out[2] += w * bf16_low(v.y); out[3] += w * bf16_high(v.y);
  out[4] += w * bf16_low(v.z); out[5] += w * bf16_high(v.z); out[6] += w * bf16_low(v.w); out[7] += w * bf16_high(v.w);
}

extern "C" __global__ void __launch_bounds__(row_threads) cake_sparse_mla_merge(const __grid_constant__ AttentionArgs args) {
  const s64 row = blockIdx.x;
  const int lane = threadIdx.x % 32, num_splits = args.num_splits;
  const float* lse = args.mid_lse + row * args.mid_splits;
  const u16* partial = args.mid_out + row * args.mid_splits * dims_per_row + threadIdx.x * 8;
  const float* sink_of_row = args.sink + row % args.num_heads;
  u16* target = args.output + row * dims_per_row + threadIdx.x * 8;
  launch_dependents();
  // Before the wait: addresses, and the arguments on their way into the constant cache.
  asm volatile("" : "+l"(lse), "+l"(partial), "+l"(sink_of_row), "+l"(target));
  asm volatile("" :: "l"(args.out_lse), "r"(args.num_heads), "f"(args.lse_scale));
  wait_for_previous_grid();

  const float first_lse = load_lse(lse, lane, num_splits);
  uint4 values[batch];
#pragma unroll
  for (int k = 0; k < batch; k++)
    if (k < num_splits) values[k] = load_partial(partial + (s64)k * dims_per_row);
  const float sink = args.sink != nullptr ? __ldg(sink_of_row) : negative_infinity();

  float maximum = first_lse;
  for (int base = 32; base < num_splits; base += 32) maximum = fmaxf(maximum, load_lse(lse, base + lane, num_splits));
  maximum = fmaxf(warp_max(maximum), lowest_maximum);   // no split has a candidate: all weights are 0
  float weight = exp2_fast(first_lse - maximum), sum = 0.f, out[8] = {};
  for (int first = 0; first < num_splits; first += batch) {
    if (first > 0 && first % 32 == 0) weight = exp2_fast(load_lse(lse, first + lane, num_splits) - maximum);
    uint4 next[batch];
#pragma unroll
    for (int k = 0; k < batch; k++)
      if (first + batch + k < num_splits) next[k] = load_partial(partial + (s64)(first + batch + k) * dims_per_row);
#pragma unroll
    for (int k = 0; k < batch; k++)
      if (first + k < num_splits) {
        const float w = __shfl_sync(0xffffffffu, weight, (first + k) & 31);
        sum += w;
        add_partial(out, values[k], w);
      }
#pragma unroll
    for (int k = 0; k < batch; k++) values[k] = next[k];
  }
  const RowTotal total = add_sink({maximum, sum}, sink);
  const float share = sum > 0.f ? __fdividef(exp2_fast(maximum - total.maximum), total.sum) : 0.f;
  *(uint4*)target = make_uint4(pack_bf16(share * out[0], share * out[1]), pack_bf16(share * out[2], share * out[3]), pack_bf16(share * out[4], share * out[5]),
                               pack_bf16(share * out[6], share * out[7]));
  if (threadIdx.x == 0) args.out_lse[row] = scaled_lse(row_lse(total), args.lse_scale);
}
