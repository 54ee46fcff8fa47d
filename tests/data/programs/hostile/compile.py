compile("import os", "x", "exec")
# ends: NameError
