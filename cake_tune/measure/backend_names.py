"""The names of the backends, below both the specs that give them and the package that holds what they name."""

BACKENDS = {
    "cpu": "the op's CPU grid on this machine's cores",
    "cuda": "the compiled kernels on the first visible GPU",
    "simulated": "a made-up device with known best plans and seeded noise: no tensors, for trying things out",
    "faults": "another backend with faults put in, as in faults:cpu:crash@decode/t1/s2x* (verifies the sweep itself)",
}
"""Every backend, by name, with what it measures."""
