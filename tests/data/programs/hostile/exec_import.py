exec('import subprocess')
1
# ends: ModuleNotFoundError
