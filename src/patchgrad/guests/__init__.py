"""Tasks, sandboxes and hidden tests of ours in the programs of others: an environment of TRL's, a task of inspect_ai's."""
