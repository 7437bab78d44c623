"""The SDK: jobs are defined on a `Windlass`, typed, and enqueued through it or on the caller's connection.

It talks straight to PostgreSQL, for the promise is that a job exists if and only if a transaction commits.
"""

from windlass.client._app import Windlass, database_url
from windlass.client._definition import Job
from windlass.client._handle import JobHandle
from windlass.client._payload import SchemaPayload
from windlass.client._schedule import cron, every

__all__ = ["Job", "JobHandle", "SchemaPayload", "Windlass", "cron", "database_url", "every"]
