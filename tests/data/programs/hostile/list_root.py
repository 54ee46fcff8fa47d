import os
os.listdir('/')
# ends: PermissionError
