"""`persistor bench`: how fast this is, as ratios measured in one process, by turns."""
