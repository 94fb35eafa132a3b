# Makes more changes than a person reads, under long names with control sequences.
import json

put(".envrc", "")
state = {"projects": {f"/{number:05}\x1b[2J\u202e" + "x" * 2000: {"mcpServers": {"x": 1}} for number in range(3000)}}
with open(os.path.expanduser("~/.claude.json"), "w") as file:
    json.dump(state, file)
done()
