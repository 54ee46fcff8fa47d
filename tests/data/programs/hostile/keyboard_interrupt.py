raise KeyboardInterrupt
# ends: KeyboardInterrupt
