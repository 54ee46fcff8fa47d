raise SystemExit("a file that is only checked is not imported")
