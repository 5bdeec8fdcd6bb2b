"""`persistor bench`: speed as ratios, measured in one process where the contenders take turns."""
