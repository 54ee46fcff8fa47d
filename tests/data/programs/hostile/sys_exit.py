import sys
sys.exit(1)
# ends: AttributeError
