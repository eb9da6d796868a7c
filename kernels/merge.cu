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
CAKE_INLINE float warp_max(float x) {
#pragma unroll
  for (int i = 16; i; i >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
  return x;
}
CAKE_INLINE float warp_sum(float x) {
#pragma unroll
  for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
  return x;
}
CAKE_INLINE float load_lse(const float* lse, int split, int num_splits) { return split < num_splits ? __ldcg(lse + split) : negative_infinity(); }
CAKE_INLINE float weight_of(float lse, const RowTotal& total) { return total.sum > 0.f ? exp2_fast(lse - total.maximum) / total.sum : 0.f; }

extern "C" __global__ void __launch_bounds__(row_threads) cake_sparse_mla_merge(const __grid_constant__ AttentionArgs args) {
  const s64 row = blockIdx.x;
  const int lane = threadIdx.x % 32, num_splits = args.num_splits;
  const float* lse = args.mid_lse + row * args.mid_splits;
  const u16* partial = args.mid_out + row * args.mid_splits * dims_per_row + threadIdx.x * 8;
  const float sink_default = negative_infinity();
  launch_dependents();
  wait_for_previous_grid();

  uint4 values[batch];
#pragma unroll
  for (int k = 0; k < batch; k++)
    if (k < num_splits) values[k] = load_partial(partial + (s64)k * dims_per_row);
  const float sink = args.sink != nullptr ? __ldg(args.sink + row % args.num_heads) : sink_default;
  const float first_lse = load_lse(lse, lane, num_splits);

  float maximum = first_lse;
  for (int base = 32; base < num_splits; base += 32) maximum = fmaxf(maximum, load_lse(lse, base + lane, num_splits));
  maximum = warp_max(maximum);
  const bool empty = !(maximum > negative_infinity());
  float sum = empty ? 0.f : exp2_fast(first_lse - maximum);
  if (!empty)
    for (int base = 32; base < num_splits; base += 32) sum += exp2_fast(load_lse(lse, base + lane, num_splits) - maximum);
  const RowTotal total = add_sink({maximum, empty ? 0.f : warp_sum(sum)}, sink);

  float out[8] = {};
  for (int first = 0; first < num_splits; first += batch) {
    const int base = first & ~31;
    const float weight = weight_of(base == 0 ? first_lse : load_lse(lse, base + lane, num_splits), total);
#pragma unroll
    for (int k = 0; k < batch; k++)
      if (first + k < num_splits) {
        const float w = __shfl_sync(0xffffffffu, weight, (first + k) & 31);
        const uint4 v = first == 0 ? values[k] : load_partial(partial + (s64)(first + k) * dims_per_row);
        out[0] += w * bf16_low(v.x); out[1] += w * bf16_high(v.x); out[2] += w * bf16_low(v.y); out[3] += w * bf16_high(v.y);
        out[4] += w * bf16_low(v.z); out[5] += w * bf16_high(v.z); out[6] += w * bf16_low(v.w); out[7] += w * bf16_high(v.w);
      }
  }
  *(uint4*)(args.output + row * dims_per_row + threadIdx.x * 8) =
      make_uint4(pack_bf16(out[0], out[1]), pack_bf16(out[2], out[3]), pack_bf16(out[4], out[5]), pack_bf16(out[6], out[7]));
  if (threadIdx.x == 0) args.out_lse[row] = scaled_lse(row_lse(total), args.lse_scale);
}
