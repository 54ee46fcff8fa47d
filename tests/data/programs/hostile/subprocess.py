import subprocess
# ends: ModuleNotFoundError
