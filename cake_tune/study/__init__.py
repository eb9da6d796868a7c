"""Studies: how well a tuner chooses, from journals of runs. Each gives a report, CSV files and plots."""
