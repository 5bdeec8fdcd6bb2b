"""The published numbers that ours are compared with: mean, lowest and highest of five seeds."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """An entry of a table of the paper, as a fraction: mean [low; high]."""

    mean: float
    low: float
    high: float


# Table "Parity": accuracy on lengths 50 to 1000, by cell and epsilon.
PARITY: dict[tuple[str, float | None], Published] = {
    ("cmru", -1.0): Published(1.0, 1.0, 1.0),
    ("cmru", 0.0): Published(0.5001, 0.4997, 0.5006),
    ("cmru", 0.1): Published(0.4997, 0.4934, 0.5053),
    ("cmru", 0.25): Published(0.4989, 0.4962, 0.5009),
    ("cmru", 0.5): Published(0.4981, 0.4953, 0.4997),
    ("cmru", 0.75): Published(0.4995, 0.4950, 0.5047),
    ("cmru", 1.0): Published(0.5003, 0.4947, 0.5053),
    ("mingru", None): Published(0.4995, 0.4978, 0.5003),
    ("alpha-cmru", -1.0): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 0.0): Published(0.4982, 0.4947, 0.5003),
    ("alpha-cmru", 0.1): Published(0.4981, 0.4931, 0.5006),
    ("alpha-cmru", 0.25): Published(0.5010, 0.4938, 0.5081),
    ("alpha-cmru", 0.5): Published(0.4976, 0.4912, 0.5006),
    ("alpha-cmru", 0.75): Published(0.4981, 0.4931, 0.5000),
    ("alpha-cmru", 1.0): Published(0.4982, 0.4928, 0.5034),
    ("lru", None): Published(0.4988, 0.4931, 0.5053),
}

# Table "Copy First Discrete (15 items)": accuracy, by cell and length.
COPY_FIRST_DISCRETE: dict[tuple[str, int], Published] = {
    ("cmru", 100): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 100): Published(1.0, 1.0, 1.0),
    ("lru", 100): Published(1.0, 1.0, 1.0),
    ("mingru", 100): Published(0.2548, 0.0628, 1.0),
    ("cmru", 300): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 300): Published(1.0, 1.0, 1.0),
    ("lru", 300): Published(0.6261, 0.0641, 1.0),
    ("mingru", 300): Published(0.0667, 0.0628, 0.0734),
    ("cmru", 500): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 500): Published(1.0, 1.0, 1.0),
    ("lru", 500): Published(0.4404, 0.0650, 1.0),
    ("mingru", 500): Published(0.0671, 0.0650, 0.0734),
    ("cmru", 1000): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 1000): Published(1.0, 1.0, 1.0),
    ("lru", 1000): Published(0.2531, 0.0628, 1.0),
    ("mingru", 1000): Published(0.0649, 0.0628, 0.0666),
    ("cmru", 2000): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 2000): Published(1.0, 1.0, 1.0),
    ("lru", 2000): Published(0.0653, 0.0612, 0.0734),
    ("mingru", 2000): Published(0.0699, 0.0650, 0.0734),
    ("cmru", 5000): Published(0.9874, 0.9372, 1.0),
    ("alpha-cmru", 5000): Published(1.0, 1.0, 1.0),
    ("lru", 5000): Published(0.0681, 0.0641, 0.0734),
    ("mingru", 5000): Published(0.0650, 0.0628, 0.0666),
    ("cmru", 10000): Published(1.0, 1.0, 1.0),
    ("alpha-cmru", 10000): Published(1.0, 1.0, 1.0),
    ("lru", 10000): Published(0.0650, 0.0628, 0.0666),
    ("mingru", 10000): Published(0.0664, 0.0628, 0.0734),
}
