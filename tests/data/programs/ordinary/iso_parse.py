from datetime import datetime, timezone, timedelta

start = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
end = start + timedelta(hours=36, minutes=15)
final_result = end.isoformat()
# '2024-01-02T12:15:00+00:00'
