"""Reading what models write: each format, tolerantly."""
