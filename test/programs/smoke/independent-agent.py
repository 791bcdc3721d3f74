"""An agent and a dashboard client written from docs/sockets alone, with a Socket.IO client that is not ours.

Usage: independent-agent.py URL AGENT_TOKEN ACCESS_TOKEN. Prints one JSON line for each thing that happened, ends at EOF on stdin.
"""
import json
import sys
import threading
from datetime import datetime, timezone

import socketio

url, agent_token, access_token = sys.argv[1:4]
lock = threading.Lock()


def say(event, **fields):
    with lock:
        print(json.dumps({"event": event, **fields}), flush=True)


def now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


ENTRY = {
    "recordId": 1, "timeCreated": now(), "level": "error", "source": "python", "eventId": 1,
    "message": "from python", "category": "System", "user": None, "computer": "SNAKE",
}

agent = socketio.Client(reconnection=False)


@agent.on("command", namespace="/agents")
def on_command(frame):
    def answer():
        started = now()
        if frame["type"] == "eventlogs.query":
            rows = {"id": frame["id"], "seq": 0, "rows": [ENTRY], "done": True}
            say("rows.acked", answer=agent.call("command:rows", rows, namespace="/agents", timeout=5))
        result = {
            "id": frame["id"], "epoch": frame["epoch"], "status": "succeeded", "output": {"scanned": 1, "truncated": False},
            "startedAt": started, "finishedAt": now(),
        }
        say("result.acked", answer=agent.call("command:result", result, namespace="/agents", timeout=5))

    threading.Thread(target=answer).start()
    return {"ok": True}


agent.connect(
    url, namespaces=["/agents"], transports=["websocket"], socketio_path="/hub",
    auth={"token": agent_token, "protocol": 1, "agentVersion": "py-1", "capabilities": ["eventlogs.query"], "bootId": "py"},
)
beat = {"at": now(), "agentVersion": "py-1", "metrics": {"cpuPercent": 7, "ramPercent": 8, "diskPercent": 9}}
say("heartbeat.acked", answer=agent.call("heartbeat", beat, namespace="/agents", timeout=5))
say("nonsense.acked", answer=agent.call("heartbeat", {"at": 1}, namespace="/agents", timeout=5))

dashboard = socketio.Client(reconnection=False)
dashboard.on("devices:delta", lambda delta: say("delta", delta=delta), namespace="/dashboard")
dashboard.connect(url, namespaces=["/dashboard"], transports=["websocket"], socketio_path="/hub", auth={"token": access_token})
snapshot = dashboard.call("devices:subscribe", {}, namespace="/dashboard", timeout=5)
say("snapshot", snapshot=snapshot)

sys.stdin.read()
agent.disconnect()
dashboard.disconnect()
