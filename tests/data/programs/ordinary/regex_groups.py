import re

match = re.search(r"(?P<year>\d{4})-(?P<month>\d{2})", "Released on 2023-02-06")
final_result = match.groupdict()
# {'year': '2023', 'month': '02'}
