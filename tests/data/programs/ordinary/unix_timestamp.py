from datetime import datetime, timezone

final_result = int(datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp())
# 1704067200
