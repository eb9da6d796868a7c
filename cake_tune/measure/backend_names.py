"""The names of the backends, below both the specs that give them and the package that holds what they name."""

BACKENDS = {
    "cpu": "the op's CPU grid on this machine's cores",
    "cuda": "the compiled kernels on the first visible GPU",
    "flashinfer": "FlashInfer's compiled Cake kernels on the first visible GPU, which is an SM120 or SM121 one",
    "simulated": "a made-up device with known best plans and seeded noise, for trying things out: a small one, or "
    "simulated:h200, :gb10, :rtx-5090, :rtx-pro-6000, :random:7",
    "faults": "another backend with faults put in, as in faults:cpu:crash@decode/t1/s2x* (verifies the sweep itself)",
}
"""Every backend, by name, with what it measures."""
