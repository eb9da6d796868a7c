"""What a sweep leaves on disk: records, the journal that holds them, and the run directory around it."""
