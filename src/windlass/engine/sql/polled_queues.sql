-- Worker $1 looks at the queues named $2 now.
update windlass.workers set queues = $2 where id = $1
