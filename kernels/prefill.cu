// One-launch prefill. One CTA: one token x 16 * head_tiles heads x all candidates, at most 16 chunks (see pipeline.cuh). No scratch: num_splits
// is 1. The same pipeline as decode, with up to four head tiles.
#if CAKE_WARPGROUP
#include "warpgroup.cuh"
#elif CAKE_TILE
#include "tile.cuh"
#else
#include "pipeline.cuh"
#endif

extern "C" __global__ void __launch_bounds__(num_threads, 1) cake_sparse_mla_prefill(const __grid_constant__ AttentionArgs args) { attend(args); }
