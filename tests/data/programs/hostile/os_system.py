import os
os.system('id')
# ends: AttributeError
