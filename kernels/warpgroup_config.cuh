// Shared memory of the warpgroup pipeline: [query | two decoded tiles | three RoPE blocks | P], overlaid by the output staging once the loop is over; then small
// tables. Part of config.cuh.
#pragma once

// A matrix here is blocks of 64 rows x 128 bytes: 64 dims of 64 heads or 64 candidates. The 16-byte pieces of a block's row are swizzled by
// the row, as wgmma's 128-byte swizzle has it; blocks therefore start at multiples of 1024 bytes.
constexpr int swizzled_block_bytes = 64 * 128;
constexpr int matrix_bytes = latent_dims / 64 * swizzled_block_bytes;
__device__ constexpr u32 swizzled(u32 row, u32 piece) { return (piece >> 3) * swizzled_block_bytes + row * 128 + ((piece ^ row) & 7) * piece_bytes; }
__device__ constexpr u32 query_piece(u32 row, u32 piece) { return swizzled(row, piece); }

constexpr int gather_rows = 4;   // of each warp: not used, rows come through registers
constexpr int query_offset = 0;
constexpr int tile_bytes = nope_units / 2 * swizzled_block_bytes;                  // the decoded dims of a chunk
constexpr int tiles_offset = matrix_bytes;
constexpr int ropes_offset = tiles_offset + 2 * tile_bytes, ropes = 3;             // its RoPE block, copied as it is
constexpr int probability_offset = ropes_offset + ropes * swizzled_block_bytes;                               // two blocks, 64 heads x 64 candidates: F16, BF16
constexpr int staged_row_bytes = latent_dims * 2 + 16, staged_shares = 1;

constexpr int slots_offset = probability_offset + 2 * swizzled_block_bytes;        // {page, row} of every candidate of this CTA
constexpr int valid_offset = slots_offset + max_steps * step_candidates * 8;       // 16 valid bits per step
constexpr int stats_offset = valid_offset + max_steps * 2;                         // per warpgroup and head: maximum, sum
constexpr int stats_bytes = block_heads * 8;
constexpr int maxima_offset = stats_offset + groups * stats_bytes;                 // per warpgroup and head: the maximum of its candidates
constexpr int factors_offset = maxima_offset + groups * block_heads * 4;           // per head: log2-unit score = product * factor
constexpr int transfer_offset = factors_offset + block_heads * 4;                   // of the half of the query that the other block of a pair sends (ptx.cuh)
constexpr int shared_bytes = transfer_offset + 16;
static_assert(groups == 2 && slices == 4 && stages == 2 && reuse_decoded, "two warpgroups, two tiles");
static_assert(block_heads * staged_row_bytes <= probability_offset, "the staging fits what it overlays");
