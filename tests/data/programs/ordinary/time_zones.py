from datetime import datetime, timezone, timedelta

tokyo = timezone(timedelta(hours=9))
moment = datetime(2024, 1, 1, 12, 0, tzinfo=timezone.utc).astimezone(tokyo)
final_result = moment.strftime("%H:%M")
# '21:00'
