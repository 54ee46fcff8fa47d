import os
final_result = dict(os.environ)
# ends: RuntimeError
