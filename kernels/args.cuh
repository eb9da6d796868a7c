// The one by-value argument of every kernel here: 192 bytes, described field by field in ABI.md.
// Field order and offsets are the ABI: append, never rename or reorder.
#pragma once
#include "types.cuh"

// One paged NVFP4 cache and the candidates that every token takes from it.
struct CacheArgs {
  const u8* cache;      //  0  first byte of the pool, 16-byte aligned
  const int* indices;   //  8  flat slots, negative = masked
  const int* lengths;   // 16  valid prefix per token, null = the whole width
  s64 page_stride;      // 24  bytes from page to page, a multiple of 16
  s64 index_stride;     // 32  elements from one token's indices to the next token's
  int width;            // 40  candidates per token (topk); 0 = this cache is absent
  int page_size;        // 44  tokens per page, any value >= 1
  u32 page_magic;       // 48  slot / page_size == umulhi(2 * slot, page_magic) >> page_shift
  u32 page_shift;       // 52
};                      // 56 bytes

struct AttentionArgs {
  const u16* query;       //   0  BF16 [T, H, 512]
  u16* output;            //   8  BF16 [T, H, 512]
  float* out_lse;         //  16  [T, H]
  u16* mid_out;           //  24  BF16 [T, H, mid_splits, 512]; null when num_splits == 1
  float* mid_lse;         //  32  [T, H, mid_splits]; null when num_splits == 1
  const float* sink;      //  40  [H], natural-log units; null = none
  CacheArgs main;         //  48
  CacheArgs extra;        // 104  all zero without a second cache
  int num_tokens;         // 160
  int num_heads;          // 164
  int num_chunks;         // 168  ceil(topk/64) + ceil(extra_topk/64)
  int chunks_per_block;   // 172
  int num_splits;         // 176
  int mid_splits;         // 180  splits that the scratch was allocated for, >= num_splits
  float score_scale;      // 184  sm_scale * log2(e)
  float lse_scale;        // 188
};                        // 192 bytes

static_assert(sizeof(CacheArgs) == 56 && sizeof(AttentionArgs) == 192, "the ABI of ABI.md");
