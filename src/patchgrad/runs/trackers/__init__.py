"""Who is told how a run goes; none of them steers it."""
