open('/etc/passwd').read()
# ends: PermissionError
