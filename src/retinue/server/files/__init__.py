"""`/files` and `/vector_stores`: what clients upload, and how it is found again."""
