"""Models as files of others: from a package index, as GGUF and back, looked at and checked before a policy is made of one."""
