"""Check a model before serving: which of its shapes the kernels run, and what a table knows about each of them."""
