"""One file per OS process that Windlass ships, and the one table of periodic work (chores).

Only wiring: what a process does lives in the rooms below.
"""
