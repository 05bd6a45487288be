"""The phases of a run, a file each: functions from one session to the next."""
