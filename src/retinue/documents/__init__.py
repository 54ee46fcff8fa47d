"""Documents: texts out of files and pages, cut into pieces, kept and found again."""
