import os
os.getenv('PATH')
# ends: RuntimeError
