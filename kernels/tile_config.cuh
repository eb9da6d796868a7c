// Shared memory of the tile pipeline: [gather stages | two decoded tiles | P twice | small tables]. The converted query lies where the second tile
// will be, and the output staging over the stages once the loop is over. Part of config.cuh.
#pragma once

constexpr int gather_rows = chunk_width / num_warps;                               // of each warp: it gathers the rows that it scores
constexpr int chunk_stage_bytes = chunk_width * row_bytes;

// A decoded row is a candidate's NoPE dims as F16. Row r of eight starts 16 * (r / 2 + 4 * (r % 2)) bytes into its place: 16-byte stores of a quad
// per row and ldmatrix of eight rows both hit all banks, and every address is a base plus a constant.
constexpr int decoded_row_bytes = 1024;
constexpr int decoded_tile_bytes = chunk_width * decoded_row_bytes;
static_assert(nope_units * unit_dims * 2 + 7 * piece_bytes <= decoded_row_bytes, "the last row's start and length fit");

constexpr int probability_bytes = heads_per_tile * chunk_width * 2;                // 16 heads x 64 candidates, as F16 and as BF16
constexpr int stages_offset = 0;
constexpr int tiles_offset = stages_offset + stages * chunk_stage_bytes;
constexpr int probability_offset = tiles_offset + 2 * decoded_tile_bytes;
constexpr int slots_offset = probability_offset + 4 * probability_bytes;           // {page, row} of every candidate of this CTA
constexpr int valid_offset = slots_offset + max_steps * step_candidates * 8;       // 16 valid bits per step
constexpr int maxima_offset = valid_offset + max_steps * 2;                         // per head and warp: a maximum
constexpr int sums_offset = maxima_offset + heads_per_tile * num_warps * 4;        // per head and warp: a sum
constexpr int factors_offset = sums_offset + heads_per_tile * num_warps * 4;       // per head: log2-unit score = product * factor
constexpr int totals_offset = factors_offset + block_heads * 4;                    // from the other block of a pair, per head: maximum, sum
constexpr int shares_offset = totals_offset + block_heads * 8;                     // and its output, for the half of the heads that this block finishes
constexpr int shared_bytes = shares_offset + block_heads / 2 * latent_dims * 2;

// The converted query: the XOR lets 16-byte loads of a quad per row and ldmatrix of eight rows hit all banks.
constexpr int query_offset = tiles_offset + decoded_tile_bytes;
constexpr int query_row_bytes = latent_dims * 2;
__device__ constexpr u32 scattered(u32 row) { return (row >> 1 & 3) + 4 * (row & 1); }
__device__ constexpr u32 query_piece(u32 row, u32 piece) { return row * query_row_bytes + (piece & ~7u) * piece_bytes + ((piece ^ scattered(row)) & 7) * piece_bytes; }

// Staging of the output, over the stages: 64 dims of 16 rows per warp.
constexpr int staged_row_bytes = 128 + 16, warp_staging_bytes = heads_per_tile * staged_row_bytes;
static_assert(groups == 1 && num_warps == 8 && block_heads == 16 && reuse_decoded && stages == 3, "eight warps, one head tile");
static_assert(num_warps * warp_staging_bytes <= tiles_offset, "the staging fits what it overlays");
