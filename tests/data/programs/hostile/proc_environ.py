open("/proc/self/environ").read()
# ends: PermissionError
