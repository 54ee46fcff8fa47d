from pathlib import Path
Path("/proc/1/cmdline").read_text()
# ends: PermissionError
