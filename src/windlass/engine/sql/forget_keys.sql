-- Dedupe keys of ended jobs whose window has passed.
delete from windlass.dedupe where ended and until <= clock_timestamp()
