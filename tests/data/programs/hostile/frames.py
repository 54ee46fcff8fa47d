import sys
sys._getframe().f_back.f_globals
# ends: AttributeError
