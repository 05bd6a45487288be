"""Tasks, sandboxes and hidden tests of ours in the programs of others: TRL's environments, inspect_ai's tasks, verifiers' tasksets."""
