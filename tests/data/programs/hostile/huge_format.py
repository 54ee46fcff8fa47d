'%1000000000d' % 3
# ends: MemoryError
