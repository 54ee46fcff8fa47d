raise SystemExit(3)
# ends: RuntimeError
