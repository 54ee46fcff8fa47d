"""`/files` and `/vector_stores`: uploads and their search."""
