"""The compile cache in S3: a moto server that checks signatures, and what a user sees of `trine cache`."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto.server")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def server():
    """A server on which three calls make a user; after them every request must be signed by it."""
    port = free_port()
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    try:
        any_key = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1", "endpoint_url": url}
        iam = boto3.client("iam", **any_key)
        iam.create_user(UserName="trine")
        allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName="trine", PolicyName="s3", PolicyDocument=json.dumps(allow))
        key = iam.create_access_key(UserName="trine")["AccessKey"]
        s3 = boto3.client("s3", **any_key | {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]})
        s3.create_bucket(Bucket="models")
        yield {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    finally:
        process.kill()
        process.wait()


def environment(server, tmp_path, url, **more):
    return {**os.environ, **server, "AWS_REGION": "us-east-1", "XDG_CACHE_HOME": str(tmp_path), "NEURON_COMPILE_CACHE_URL": url, **more}


def run(trine, environment, *words):
    return subprocess.run([trine, "cache", *words], env=environment, capture_output=True, text=True, timeout=60)


def test_get_or_make(trine, server, tmp_path):
    own = environment(server, tmp_path, "s3://models/a b/neuron", TRINE_TEST_S3=str(tmp_path / "made"))
    command = [trine.parent / "test_compile", "--test-case=the cache in S3"]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_command(trine, server, tmp_path):
    s3 = environment(server, tmp_path, "s3://models/exported")
    assert json.loads(run(trine, s3, "ls", "--json").stdout)["entries"] == []
    local = environment(server, tmp_path, str(tmp_path / "local"))
    entry = tmp_path / "local/v1/ab" / ("ab" + "0" * 62 + ".entry")
    entry.parent.mkdir(parents=True)
    entry.write_text("torn")
    verified = run(trine, local, "verify", "--json")
    assert verified.returncode == 1 and json.loads(verified.stdout)["bad"] == 1
    assert "does not begin as an entry does" in run(trine, local, "verify").stdout
    assert "copied 0 entries" in run(trine, local, "export", "--to", "s3://models/exported").stdout
    assert json.loads(run(trine, local, "prune", "--json").stdout)["bad"] == 1
    assert run(trine, local, "verify").returncode == 0


WRONG = {
    "secret": ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "s3://models/x", "AWS_SECRET_ACCESS_KEY"),
    "user": ({"AWS_ACCESS_KEY_ID": "AKIAWRONG"}, "s3://models/x", "AWS_ACCESS_KEY_ID"),
    "bucket": ({}, "s3://nowhere/x", "NoSuchBucket"),
    "server": ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "s3://models/x", "cannot reach s3://models at 127.0.0.1:9"),
    "none": ({"AWS_ACCESS_KEY_ID": ""}, "s3://models/x", "needs credentials"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong(trine, server, tmp_path, name):
    changed, url, said = WRONG[name]
    done = run(trine, environment(server, tmp_path, url, **changed), "ls")
    assert done.returncode != 0
    assert said in done.stderr
