#!/usr/bin/env python3
"""An approver service: reads a pool's requests, decides, signs. Needs pika and PyNaCl."""
import base64, hashlib, json, os, time

import nacl.signing, pika

POOL, NAME, KEY_ID = os.environ["POOL"], os.environ["APPROVER"], os.environ["KEY_ID"]
BUCKETS = int(os.environ.get("BUCKETS", "4"))
KEY = nacl.signing.SigningKey(bytes.fromhex(open(os.environ["KEY_FILE"]).read().strip()))


def decide(request):
    """Replace this. None: no opinion; if nobody has one, the deadline denies."""
    argv = request["args"].get("inline", {}).get("argv", [])
    if "deployed" not in " ".join(argv):
        return None
    time.sleep(float(os.environ.get("THINK_SECONDS", "0")))
    return "approve"


def on_request(channel, method, _properties, body):
    request = json.loads(body)
    verdict = decide(request)
    if verdict:
        decision = {key: request[key] for key in ("approval_id", "nonce", "args_hash")}
        decision |= {"v": 1, "verdict": verdict, "approver": NAME, "channel": "amqp"}
        decision["issued_at"] = int(time.time() * 1000)
        signed = json.dumps(decision, sort_keys=True, separators=(",", ":")).encode()
        sig = KEY.sign(b"portcullis.decision.v1\n" + signed).signature
        message = {"decision": decision, "key_id": KEY_ID, "sig": base64.b64encode(sig).decode()}
        bucket = hashlib.sha256(request["run_id"].encode()).digest()[0] % BUCKETS
        body = json.dumps(message).encode()
        channel.basic_publish("portcullis.decisions", f"decisions.{bucket}", body)
    channel.basic_ack(method.delivery_tag)


channel = pika.BlockingConnection(pika.URLParameters(os.environ["PORTCULLIS_BUS_URL"])).channel()
channel.queue_declare(f"approvals.{POOL}", durable=True, arguments={"x-queue-type": "quorum"})
channel.queue_bind(f"approvals.{POOL}", "portcullis.approvals", f"approval.*.{POOL}.*")
channel.basic_consume(f"approvals.{POOL}", on_request)
print(f"{NAME} decides for pool {POOL}", flush=True)
channel.start_consuming()
