"""What benchmarks share: commands, pairing, peers, records of what was measured, and the page that is written from them."""
