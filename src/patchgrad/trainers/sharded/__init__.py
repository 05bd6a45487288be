"""A trainer over many processes: parameters in shards (FSDP2), sequences in shares (Ulysses), by torch.distributed alone."""
