// From the accumulators of the tile pipeline (tile.cuh) to rows in global memory: a warp has all of its dims, so it needs the totals of others only.
#pragma once
#include "place.cuh"
#include "tile_softmax.cuh"

// Stages the warp's dims of `rows` rows as BF16 and writes them; no other warp has a part in them.
template <int rows> CAKE_INLINE void write_dims(const AttentionArgs& args, const BlockPlace& place, u32 (&words)[8][rows / 8], u32 shared, int first_row, int ranks, int warp, int lane) {
  const u32 staging = shared + warp * warp_staging_bytes;
  if constexpr (rows == 16) {
    const u32 matrix = staging + (lane & 15) * staged_row_bytes + (lane >> 4) * piece_bytes;
#pragma unroll
    for (int n = 0; n < 8; n += 2) store_matrix(matrix + n * piece_bytes, words[n][0], words[n][1], words[n + 1][0], words[n + 1][1]);
  } else {
    const u32 matrix = staging + (lane & 7) * staged_row_bytes + (lane >> 3) * piece_bytes;
#pragma unroll
    for (int n = 0; n < 8; n += 4) store_matrix(matrix + n * piece_bytes, words[n][0], words[n + 1][0], words[n + 2][0], words[n + 3][0]);
  }
  __syncwarp();
  const bool direct = args.num_splits == ranks, rope = warp == num_warps - 1;
  const int own_row = lane >> 3, piece = lane & 7, heads = args.num_heads - place.first_head - first_row;
  const s64 first_place = (s64)place.token * args.num_heads + place.first_head + first_row + own_row;
  u16* target = (direct ? args.output + first_place * latent_dims : args.mid_out + (first_place * args.mid_splits + place.split / ranks) * latent_dims) + warp * 64 + piece * 8;
  const s64 row_stride = (direct ? 1 : args.mid_splits) * (s64)latent_dims;
#pragma unroll
  for (int i = 0; i < rows / 4; i++) {
    const uint4 x = load_shared_u128(staging + (own_row + 4 * i) * staged_row_bytes + piece * piece_bytes);
    if (own_row + 4 * i < heads) *(uint4*)(target + 4 * i * row_stride) = rope ? x : natural_order(x);
  }
}

CAKE_INLINE void write_block(const AttentionArgs& args, const TileOutput& output, RowTotal total, u32 shared, int warp, int lane) {
  const BlockPlace place(args);
  const float factor = finish_row(args, place, total, lane & 15, 1, warp == 0 && lane < 16) * (warp == num_warps - 1 ? 1.f : code_bias);
  const float factor0 = __shfl_sync(0xffffffffu, factor, lane >> 2), factor1 = __shfl_sync(0xffffffffu, factor, (lane >> 2) + 8);
  u32 words[8][2];
#pragma unroll
  for (int n = 0; n < 8; n++) {
    words[n][0] = pack_bf16(output[n][0] * factor0, output[n][1] * factor0);
    words[n][1] = pack_bf16(output[n][2] * factor1, output[n][3] * factor1);
  }
  write_dims<16>(args, place, words, shared, 0, 1, warp, lane);
}

// A pair of splits: each block hands the other one its unnormalised output of the eight heads that the other finishes, and its totals.
CAKE_INLINE void write_pair(const AttentionArgs& args, const TileOutput& output, RowTotal total, u32 shared, int warp, int lane) {
  const BlockPlace place(args);
  const int rank = place.split & 1;
  wait_for_cluster();   // the other block runs, so its shared memory is there
  const u32 other = cluster_address(shared, 1 - rank), mine = warp * 1024 + lane * 16;
  if (warp == 0 && lane < 16) store_cluster_u64(other + totals_offset + lane * 8, __float_as_uint(total.maximum), __float_as_uint(total.sum));
#pragma unroll
  for (int n = 0; n < 8; n += 4) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = rank == 0 ? pack_bf16(output[n + i][2], output[n + i][3]) : pack_bf16(output[n + i][0], output[n + i][1]);
    store_cluster_u128(other + shares_offset + mine + n / 4 * 512, make_uint4(words[0], words[1], words[2], words[3]));
  }
  meet_cluster();
  const int row = rank * 8 + (lane & 7);
  const uint2 x = load_shared_u64(shared + totals_offset + row * 8);
  const RowTotal theirs = {__uint_as_float(x.x), __uint_as_float(x.y)};
  const RowTotal own = {__shfl_sync(0xffffffffu, total.maximum, row), __shfl_sync(0xffffffffu, total.sum, row)};
  const float maximum = fmaxf(own.maximum, theirs.maximum), own_weight = exp2_fast(own.maximum - maximum), their_weight = exp2_fast(theirs.maximum - maximum);
  const float factor = finish_row(args, place, {maximum, own.sum * own_weight + theirs.sum * their_weight}, row, 2, warp == 0 && lane < 8) * (warp == num_warps - 1 ? 1.f : code_bias);
  const float own_factor = __shfl_sync(0xffffffffu, factor * own_weight, lane >> 2), their_factor = __shfl_sync(0xffffffffu, factor * their_weight, lane >> 2);
  u32 words[8][1];
#pragma unroll
  for (int n = 0; n < 8; n += 4) {
    const uint4 w = load_shared_u128(shared + shares_offset + mine + n / 4 * 512);
    const u32 shares[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float a = rank == 0 ? output[n + i][0] : output[n + i][2], b = rank == 0 ? output[n + i][1] : output[n + i][3];
      words[n + i][0] = pack_bf16(a * own_factor + bf16_low(shares[i]) * their_factor, b * own_factor + bf16_high(shares[i]) * their_factor);
    }
  }
  write_dims<8>(args, place, words, shared, rank * 8, 2, warp, lane);
}
