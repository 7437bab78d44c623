-- What was enqueued and is not to be run.
truncate windlass.queue
