-- Each round begins on tables that are as empty as they look.
vacuum windlass.queue, windlass.leases
