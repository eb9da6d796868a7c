"""FlashInfer's compiled Cake kernels: what is installed, what it promises, and how to run one of its plans.

Everything but ``kernels`` reads the installed package's files and imports nothing of it, so it needs neither a GPU nor
torch: the sources are parsed, and its planners run alone.
"""
