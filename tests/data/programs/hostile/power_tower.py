9**9**9**9
# ends: MemoryError
