open('/tmp/canary', 'w')
# ends: PermissionError
