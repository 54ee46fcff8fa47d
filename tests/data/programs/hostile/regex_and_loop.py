import re
re.match('(a+)+$', 'a' * 100_000 + 'b')
while 1: pass
# ends: TimeoutError
