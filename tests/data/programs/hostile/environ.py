import os
os.environ['PATH']
# ends: not supported
