// Geometry of the op, the build options of this program, and the shared memory map that follows from both.
#pragma once
#include "types.cuh"

// ---- geometry (fixed by the cache format) -------------------------------------------------------------------
constexpr int latent_dims = 512;        // 448 NoPE + 64 RoPE; K and V alike
constexpr int data_bytes = 352;         // 224 packed NoPE + 128 RoPE bytes of one cached token
constexpr int scale_bytes = 32;         // 28 E4M3 scales + 4 padding bytes, stored behind the page's data
constexpr int row_bytes = data_bytes + scale_bytes;
constexpr int heads_per_tile = 16;      // rows of one m16n8k16
constexpr int chunk_width = 64;         // candidates per chunk: the planner's unit
constexpr int max_chunks = 16;          // per CTA
constexpr int step_candidates = 16;     // candidates that a group takes at a time
constexpr int steps_per_chunk = chunk_width / step_candidates;
constexpr int max_steps = max_chunks * steps_per_chunk;

// The latent falls into 16 units of 32 dims: 14 NoPE units (16 packed bytes, 2 scales) and 2 RoPE units (64 bytes).
constexpr int unit_dims = 32;
constexpr int num_units = latent_dims / unit_dims;
constexpr int nope_units = 14;

// A row in shared memory is 24 pieces of 16 bytes: [14 packed NoPE | 8 RoPE | 2 scales].
constexpr int piece_bytes = 16;
constexpr int row_pieces = row_bytes / piece_bytes;
constexpr int first_rope_piece = 14;
constexpr int first_scale_piece = 22;
constexpr int stage_bytes = step_candidates * row_bytes;

// ---- build options (macros of the manifest) ------------------------------------------------------------------
constexpr int head_tiles = CAKE_HEAD_TILES;
constexpr int groups = CAKE_GROUPS;
constexpr int slices = CAKE_SLICES;
constexpr int stages = CAKE_STAGES;
constexpr bool reuse_decoded = CAKE_REUSE;   // decode a step once and keep it in shared memory for the value product
constexpr bool dual_cache = CAKE_DUAL_CACHE;
constexpr bool nvfp4_query = CAKE_QK_NVFP4;
constexpr bool warpgroups = CAKE_WARPGROUP;   // sm_90a: 64 heads per CTA on wgmma (warpgroup.cuh) whatever the head tiles of the plan

constexpr bool shared_tile = CAKE_TILE;         // sm_90a: a warp scores whole rows, and all warps share the decoded tile (tile.cuh)

constexpr int num_warps = groups * slices;
constexpr int num_threads = num_warps * 32;
constexpr int block_heads = (warpgroups ? 4 : head_tiles) * heads_per_tile;
#if CAKE_WARPGROUP
#include "warpgroup_config.cuh"
#elif CAKE_TILE
#include "tile_config.cuh"
#else
constexpr int gather_rows = step_candidates / slices;   // of each warp
constexpr int slice_units = num_units / slices;      // unit p of slice s is p * slices + s, so the last two slices end on RoPE
constexpr int score_tiles = head_tiles * 2;          // m16n8 tiles of one step's scores
constexpr int output_tiles = slice_units * 4;        // n8 tiles of output dims per warp and head tile

// One head tile: every warp reduces and exponentiates all scores of the step itself, P never leaves its registers.
// More tiles: each warp of the group finishes one score tile and P goes through shared memory.
constexpr bool private_softmax = head_tiles == 1;
static_assert(private_softmax || score_tiles == slices, "one score tile per warp of the group");
static_assert(slices == 2 || slices == 4 || slices == 8, "");
static_assert(stages >= 3, "one stage is read, one has landed, one is in flight");

// ---- shared memory map ---------------------------------------------------------------------------------------
// per group: [gather stages | decoded rows | partial scores | P], overlaid by the output staging once the loop is over; then small tables.
constexpr int tile_bytes = 512;                                                    // one m16n8 float32 tile, 16 bytes per lane
// A decoded row is one candidate's slice as F16. Row r of eight starts 16 * (r / 2 + 4 * (r % 2)) bytes into its place: 16-byte stores of a quad
// per row and ldmatrix of eight rows both hit all banks, and every address is a base plus a constant.
constexpr int decoded_used_bytes = (slices == 2 ? slice_units - 1 : slice_units) * unit_dims * 2;
constexpr int decoded_row_bytes = (decoded_used_bytes + 48 + 127) / 128 * 128;     // 48: the furthest a row reaches into the next one's start
constexpr int decoded_half_bytes = 8 * decoded_row_bytes + 64;                     // rows 8..15 start 64 bytes later: row 7 reaches further
constexpr int decoded_warp_bytes = 16 * decoded_row_bytes + 128;
constexpr int decoded_bytes = reuse_decoded ? slices * decoded_warp_bytes : 0;
constexpr int partial_bytes = slices * score_tiles * tile_bytes;
constexpr int partial_buffers = private_softmax ? 2 : 1;                           // private: a fast warp may publish while its neighbour still reads
constexpr int probability_bytes = private_softmax ? 0 : block_heads * step_candidates * 2;
constexpr int decoded_offset = stages * stage_bytes;
constexpr int partial_offset = decoded_offset + decoded_bytes;
constexpr int probability_offset = partial_offset + partial_buffers * partial_bytes;
constexpr int group_bytes = probability_offset + probability_bytes;

constexpr int staged_row_bytes = latent_dims * 2 + (reuse_decoded ? 16 : 64);       // rows start in different banks: 4- or 16-byte stores of 8 rows
constexpr int staging_bytes = groups * block_heads * staged_row_bytes;

// Before the loop, the converted query lies at the end of the overlaid part, clear of every group's first stage.
constexpr int query_row_bytes = latent_dims * 2 + 64;                              // 16-byte loads of 8 rows hit all banks
constexpr int query_bytes = block_heads * query_row_bytes;
constexpr int query_room = (groups - 1) * group_bytes + stage_bytes + query_bytes;
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int overlay_bytes = larger(groups * group_bytes, larger(staging_bytes, query_room));
constexpr int query_offset = overlay_bytes - query_bytes;

constexpr int slots_offset = overlay_bytes;                                        // {page, row} of every candidate of this CTA
constexpr int valid_offset = slots_offset + max_steps * step_candidates * 8;       // 16 valid bits per step
constexpr int stats_offset = valid_offset + max_steps * 2;                         // per group and head: maximum, sum
constexpr int stats_bytes = block_heads * 8;
constexpr int maxima_offset = stats_offset + groups * stats_bytes;                 // per group and score tile: 16 new row maxima, then sums
constexpr int maxima_bytes = slices * heads_per_tile * 4;
constexpr int factors_offset = maxima_offset + groups * maxima_bytes;               // per head: log2-unit score = product * factor
constexpr int shared_bytes = factors_offset + block_heads * 4;
constexpr int staged_shares = groups;
// Where a converted query keeps a 16-byte piece of a row.
__device__ constexpr u32 query_piece(u32 row, u32 piece) { return row * query_row_bytes + piece * piece_bytes; }
#endif
static_assert(shared_bytes == CAKE_SHARED_BYTES, "manifest.json and this layout disagree");

// Byte offset of a 16-byte piece of a row: the XOR makes 8 rows of one piece hit all banks, for ldmatrix and for cp.async alike.
__device__ __forceinline__ u32 piece_offset(u32 row, u32 piece) {
  return row * row_bytes + (piece & ~7u) * piece_bytes + ((piece ^ row) & 7u) * piece_bytes;
}
