"""Models as GGUF, the file of llama.cpp: `importing` makes a folder of one, and `exporting` a file of a folder."""
