input()
# ends: NameError
