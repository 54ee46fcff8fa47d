__import__('os').system('id')
# ends: NameError
