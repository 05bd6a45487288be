"""Sandboxes: isolated copies of a repository. Import the backend you name; each brings its own demands on the host."""
