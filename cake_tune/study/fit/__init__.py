"""The fit study: what a fit, an adaptive search and the race give on simulated devices, whose truth is known."""
