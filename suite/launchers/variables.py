"""Environment variables that the local launcher adds to torchrun's."""

#: The launcher's process id, so that no rank outlives it.
PARENT_PID = "SPARSE2D_PARENT_PID"
#: The write end of the pipe on which a rank tells the launcher where it is.
REPORT_FD = "SPARSE2D_REPORT_FD"
#: For rank 0, a socket that listens on MASTER_PORT already, so that no other process can have taken it.
STORE_FD = "SPARSE2D_STORE_FD"
#: The same for all ranks of a launch and no other: by it the launcher finds what ranks have started.
LAUNCH_ID = "SPARSE2D_LAUNCH_ID"
