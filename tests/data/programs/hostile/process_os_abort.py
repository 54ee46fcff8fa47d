import os
os.abort()
# ends: AttributeError
