// From the groups' accumulators to shares of rows in shared memory.
//
// Every group has its own maxima, sums and unnormalised output. Each stores its share of a row as BF16 over the gather stages, as it is:
// results.cuh weights, sums and writes them.
#pragma once
#include "results.cuh"
#include "softmax.cuh"

// Stores a group's share of 16 rows as BF16, unnormalised. `rows` is the lane's own row, or its second row half, for stmatrix.
CAKE_INLINE void stage_tile(const float (&output)[output_tiles][4], u32 tile, int slice, int lane) {
  const bool has_rope = slice >= slices - 2;
  const u32 matrix = tile + (lane & 15) * staged_row_bytes + (lane >> 4) * piece_bytes;
#pragma unroll
  for (int p = 0; p < slice_units; p++) {
    const u32 unit = (p * slices + slice) * unit_dims * 2;
    const float(*o)[4] = &output[4 * p];
    if (reuse_decoded || (p == slice_units - 1 && has_rope)) {   // tile j: piece j of the unit
#pragma unroll
      for (int j = 0; j < 4; j += 2)
        store_matrix(matrix + unit + j * piece_bytes, pack_bf16(o[j][0], o[j][1]), pack_bf16(o[j][2], o[j][3]), pack_bf16(o[j + 1][0], o[j + 1][1]),
                     pack_bf16(o[j + 1][2], o[j + 1][3]));
    } else {   // the four tiles together: 8 consecutive dims of two rows
      const u32 piece = tile + (lane >> 2) * staged_row_bytes + unit + (lane & 3) * piece_bytes;
#pragma unroll
      for (int r = 0; r < 2; r++)
        store_shared_u128(piece + r * 8 * staged_row_bytes, pack_bf16(o[0][2 * r], o[1][2 * r]), pack_bf16(o[2][2 * r], o[3][2 * r]),
                          pack_bf16(o[0][2 * r + 1], o[1][2 * r + 1]), pack_bf16(o[2][2 * r + 1], o[3][2 * r + 1]));
    }
  }
}

CAKE_INLINE void write_results(const AttentionArgs& args, const Output& output, Softmax& softmax, u32 shared) {
  // Everything but the sums is derived from the thread's number once more, because registers are short in the loop.
  const u32 thread = thread_index(), lane = thread % 32;
  const Group group(shared, thread / 32);
  softmax.store_totals(group, lane);
  __syncthreads();   // totals are there, and no stage is read any more
  const BlockPlace place(args);
#pragma unroll
  for (int h = 0; h < head_tiles; h++)
    stage_tile(output[h], shared + (group.index * block_heads + h * heads_per_tile) * staged_row_bytes, group.slice, lane);
  finish_rows(args, place, shared, thread);
}
