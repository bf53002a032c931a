"""Groups of questions by how often their subject is mentioned."""

from __future__ import annotations

FREQUENCY_STEPS = ((1, "<=1"), (3, "2-3"), (9, "4-9"), (29, "10-29"), (99, "30-99"))
"""Upper bound and label of each group; the last group is "100+"."""
UNKNOWN = "frequency unknown"


def frequency_group(frequency: int) -> str:
    """The label of the group of a subject mentioned this often."""
    return next((label for highest, label in FREQUENCY_STEPS if frequency <= highest), "100+")


def bucket_group(bucket: int | None, frequency: int | None) -> str:
    """The official bucket where there is one, else the frequency's group, else that it is not known."""
    if bucket is not None:
        return f"bucket {bucket}"
    return UNKNOWN if frequency is None else f"{frequency_group(frequency)} mentions"


def bucket_order(label: str) -> tuple[int, int]:
    """A sort key for `bucket_group`'s labels: official buckets, then groups from rare to frequent, then unknown."""
    if label == UNKNOWN:
        return 2, 0
    if label.startswith("bucket "):
        return 0, int(label.removeprefix("bucket "))
    return 1, int(label.removesuffix(" mentions").lstrip("<=").split("-")[0].rstrip("+"))
