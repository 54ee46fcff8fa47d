eval('__import__("os")')
# ends: NameError
