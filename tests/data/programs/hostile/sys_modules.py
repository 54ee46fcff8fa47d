import sys
sys.modules['os']
# ends: AttributeError
