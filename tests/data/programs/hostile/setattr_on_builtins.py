setattr(int, "__add__", lambda a, b: 0)
final_result = 1 + 1
# ends: AttributeError
