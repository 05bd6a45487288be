"""Where tasks come from: one module per source."""
