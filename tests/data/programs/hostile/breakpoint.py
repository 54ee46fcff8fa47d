breakpoint()
# ends: NameError
