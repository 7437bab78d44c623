"""What jobs said, line by line: appended in batches by COPY, read by job, dropped by day.

Lines are data: never markup, never trusted. This room owns windlass.job_logs and knows nothing of states.
"""

from windlass.logs._lines import append, drop_old, make_partitions, read

__all__ = ["append", "drop_old", "make_partitions", "read"]
