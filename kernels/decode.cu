// Split decode. One CTA: one token x 16 * head_tiles heads x one split of the candidates (see pipeline.cuh).
// Unsplit plans write the output here; split plans write normalised BF16 partials and base-2 LSEs for merge.cu.
#if CAKE_WARPGROUP
#include "warpgroup.cuh"
#elif CAKE_TILE
#include "tile.cuh"
#else
#include "pipeline.cuh"
#endif

extern "C" __global__ void __launch_bounds__(num_threads, 1) cake_sparse_mla_decode(const __grid_constant__ AttentionArgs args) { attend(args); }
