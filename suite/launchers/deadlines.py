"""How long the launcher waits for what, in seconds. docs/faults.md says what follows for each fault.

``RunSpec.stall_timeout_s`` is the one deadline that a user sets; these go with it.
"""

#: Between two heartbeats of a rank.
HEARTBEAT_S = 0.2
#: Between two looks at the ranks' processes.
POLL_S = 0.1
#: A rank without heartbeat for this long whose process is stopped (state T) is to blame.
STOPPED_S = 3.0
#: After a collective failed on one rank: time for the rank that caused it to say so or to be seen dead.
SETTLE_S = 2.0
#: On top of the stall timeout: the collectives of the waiting ranks fail at the stall timeout, and ranks
#: that say they waited tell which one they waited for.
STALL_MARGIN_S = 3.0
#: On top of that while a rank is starting: importing the libraries is no progress that can be seen.
START_S = 60.0
#: For a stalled rank to write its stack into its log, before SIGTERM.
STACK_S = 0.3
#: Between SIGTERM and SIGKILL.
TERMINATE_S = 2.0
#: Between two words of the launcher and what watches a rank on another host, in both directions.
LINK_HEARTBEAT_S = 1.0
#: A host from which nothing has been heard for this long is lost: its link is down, or it is.
LOST_S = 10.0
#: After the connection to a rank's watcher was closed: time for those of the same host to show the same.
GONE_S = 0.5
#: What watches a rank and has not heard the launcher for this long ends it.
ORPHAN_S = 30.0
#: For files that another host has written to show on a shared file system.
SHARED_FILES_S = 15.0
#: For tasks that have been told to end to have ended, and once more for Slurm to end them.
STEP_END_S = 2.0
