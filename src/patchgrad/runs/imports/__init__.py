"""What others leave for us: their agents' attempts, from the files that they publish, in a folder that the viewer and queries read."""
