__builtins__["__import__"]("os").system("id")
# ends: NameError
