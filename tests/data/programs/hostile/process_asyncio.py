import asyncio
asyncio.run(asyncio.create_subprocess_shell("cat CANARY_FILE"))
# ends: AttributeError
