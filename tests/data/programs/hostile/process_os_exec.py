import os
os.execv("/bin/sh", ["sh", "-c", "cat CANARY_FILE"])
# ends: AttributeError
